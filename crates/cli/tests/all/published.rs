//! What the published crates promise beside their documentation.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Crates, and their public types that are no values: state machines, handles, errors, places in a packet, and a plan that only its
/// constructor makes.
const NO_VALUES: [(&str, &str); 5] = [
    ("units", "UnitError UnknownName"),
    (
        "pace",
        "AbsoluteTime Bounded BurstBoundError BurstLimit CyclePlan DifferentialTime Grid Pacer \
         PlanError Replay SendCompare SendSleep Unpaced WakePlanner",
    ),
    (
        "rtp",
        "AbsSendTimeUnwrapper Av1Error ExtensionElement ExtensionElements ExtensionError \
         ExtensionWriter FecError H264Error NtpShortUnwrapper Packets Parity Reassembler \
         ReceptionTimeUnwrapper RtcpError RtpError RtpExtension RtpHeader SequenceUnwrapper \
         TransportFeedbackEncoder TransportFeedbackUnwrapper VoiceError Vp8Error Vp9Error",
    ),
    (
        "measure",
        "ClockEstimator DelayMeter DelayTotals ErrorHistogram InterarrivalJitter Playout \
         RateMeter RateSeries SequenceTracker StreamMeter",
    ),
    (
        "congestion",
        "Algorithm Bbr ConfigError Constant ConstantError Copa DelayConfigError Draft Fixed \
         History IncomingRate InvalidConfig Libwebrtc Logged Nada ReceiveSide Receiver \
         ReceiverDriven ScreamD00 ScreamRfc8298 ScreamV2 Tempo UnknownAlgorithm",
    ),
];
/// Values that borrow their contents, so that they can only be written.
const BORROWING: [&str; 4] = ["Answer", "Call", "Feedback", "Requirements"];

/// The Rust files below `folder`, but those of the parts that promise nothing.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("thesis") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// What is `pub` can be reached from outside: the compiler warns of the rest (`unreachable_pub`).
#[test]
fn serde_covers_every_public_value_type() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, expected) in NO_VALUES {
        let (mut values, mut others) = (0, Vec::new());
        for path in sources(&crates.join(name).join("src")) {
            let source = fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = source.lines().collect();
            for (place, line) in lines.iter().enumerate() {
                let unindented = line.trim_start();
                let declared = unindented.strip_prefix("pub struct ");
                let declared = declared.or_else(|| unindented.strip_prefix("pub enum "));
                let Some(declared) = declared else { continue };
                // In a call of a macro it is indented, of which one derives for it. Deeper are the macros themselves.
                let (indent, _) = line.split_at(line.len() - unindented.len());
                if indent.len() > 4 {
                    continue;
                }
                let of_it = lines[..place].iter().rev().map_while(|line| line.strip_prefix(indent));
                let is_config =
                    lines[..place].iter().rfind(|line| !line.starts_with(indent) || indent.is_empty());
                if is_config.is_some_and(|line| line.starts_with("crate::constants::config!")) {
                    continue;
                }
                let attributes = of_it.take_while(|line| line.starts_with(['#', '/', ' ', ')']));
                let serde: Vec<&str> = attributes.filter(|line| line.contains("serde::")).collect();
                let derives = |what: &str| serde.iter().any(|line| line.contains(what));
                let type_name = declared.split(|c: char| !c.is_alphanumeric()).next().unwrap();
                let borrows = BORROWING.contains(&type_name);
                if derives("serde::Serialize") && derives("serde::Deserialize") != borrows {
                    values += 1;
                } else {
                    others.push(type_name.to_owned());
                }
            }
        }
        others.sort();
        others.dedup();
        assert_eq!(others.join(" "), expected, "{name}: derive serde, or add them to NO_VALUES");
        assert!(values > 5, "{name}: {values}");
    }
}
