//! The feature `serde` covers every public value type.

#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

use std::{fs, path::Path};

/// State machines, handles and errors: no values.
const NO_VALUES: &[&str] = &[
    "Algorithm",
    "Bbr",
    "ConfigError",
    "Copa",
    "DelayConfigError",
    "Draft",
    "Fixed",
    "History",
    "IncomingRate",
    "InvalidConfig",
    "Libwebrtc",
    "Logged",
    "Nada",
    "ReceiveSide",
    "Receiver",
    "ReceiverDriven",
    "ScreamD00",
    "ScreamRfc8298",
    "ScreamV2",
    "Tempo",
    "UnknownAlgorithm",
];
/// They borrow their contents, so that they can be written only.
const BORROWING: &[&str] = &["Answer", "Call", "Feedback", "Requirements"];

/// Calls `see` with each file below `folder`.
fn sources(folder: &Path, see: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "thesis") {
            sources(&path, see);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            see(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// What is `pub` can be reached from outside: the compiler warns of the rest (`unreachable_pub`).
#[test]
fn every_public_value_type_can_be_serialised() {
    let (mut seen, mut others, mut lacking) = (0, Vec::new(), Vec::new());
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut |text| {
        let lines: Vec<&str> = text.lines().collect();
        for (place, line) in lines.iter().enumerate() {
            let Some(rest) = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "))
            else {
                continue;
            };
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            let attributes =
                lines[..place].iter().rev().take_while(|line| !line.is_empty() && !line.starts_with('}'));
            let derives = attributes.filter(|line| line.contains("serde::Serialize")).count() == 1;
            let reads = lines[..place].iter().rev().take(4).any(|line| line.contains("serde::Deserialize"));
            seen += 1;
            if NO_VALUES.contains(&name) {
                others.push(name.to_owned());
            } else if !derives || reads == BORROWING.contains(&name) {
                lacking.push(name.to_owned());
            }
        }
    });
    assert_eq!(lacking, Vec::<String>::new(), "derive serde, or add them to NO_VALUES");
    others.sort();
    assert_eq!(others, NO_VALUES);
    assert!(seen > 80, "{seen}");
}

#[cfg(feature = "serde")]
#[test]
fn values_are_read_as_they_were_written() {
    use giusto_congestion::{
        Extension, FeedbackKind, Limits, Options, PacketReport, SentPacket, Target, nada, scream, tempo,
    };
    use giusto_units::{DataRate, DataSize, Ecn, Timestamp};
    use serde::{Serialize, de::DeserializeOwned};

    fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
        let text = serde_json::to_string(value).unwrap();
        assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
    }

    let rate = DataRate::from_bps(123_456);
    let packet = SentPacket::new(7, Timestamp::from_nanos(8), DataSize::from_bytes(1200)).with_probe(Some(3));
    check(&PacketReport::new(packet, None).with_ecn(Ecn::Ce));
    check(&Target::new(rate, rate).with_window(Some(DataSize::from_bytes(9000))));
    check(&Options::default().with_priority(Some(2.0)));
    check(&Extension::Nada(nada::Report::new(nada::RateMode::RampUp, 1.5, rate)));
    check(&FeedbackKind::CongestionControl);
    check(&tempo::Config::within(Limits::DEFAULT.with_max(rate)));
    check(&scream::v2::Config::authors(Limits::DEFAULT));
    check(&giusto_congestion::gcc::libwebrtc::Config::giusto(Limits::DEFAULT));
    // A file that names some keys.
    let text = r#"{"max": 5000000}"#;
    let limits: Limits = serde_json::from_str(text).unwrap();
    assert_eq!(limits, Limits::DEFAULT.with_max(DataRate::from_bps(5_000_000)));
}
