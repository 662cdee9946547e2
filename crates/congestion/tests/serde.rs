//! The feature `serde` writes values as it reads them.

#![cfg(feature = "serde")]

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
