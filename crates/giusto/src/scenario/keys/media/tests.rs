use giusto_congestion::{Limits, Options};
use giusto_session::media::RateRange;
use giusto_sim::traffic::encoder::{
    BurstSize, FrameRate, FrameSizes, KeyFrames, Meanwhile, PerfectConfig, RecordedConfig, StatisticalConfig,
    TraceConfig,
};
use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::*;
use crate::{
    scenario::{Document, GiveUp, VideoStream, model::FlowKind},
    testing::algorithm,
};

const HEAD: &str = "duration = \"100 s\"
[[link]]
id = \"wire\"
from = \"here\"
to = \"there\"
duplex = true
[[flow]]
id = \"call\"
kind = \"media\"
";

/// A flow of these keys, which must be valid.
fn flow(keys: &str) -> MediaSpec {
    let document = Document::parse(&format!("{HEAD}{keys}\n"), "s.toml").unwrap();
    let scenario = document.scenario(&[]).unwrap_or_else(|error| panic!("{keys}: {error}"));
    let FlowKind::Media(media) = scenario.flows()[0].kind.clone() else { panic!("media") };
    media
}

/// The error for these keys, whose first line is 10.
fn complaint(keys: &str) -> String {
    Document::parse(&format!("{HEAD}{keys}\n"), "s.toml").unwrap().scenario(&[]).unwrap_err().to_string()
}

fn rate(text: &str) -> DataRate {
    text.parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::ZERO + TimeDelta::from_seconds(seconds)
}

#[test]
fn the_default_is_the_video_of_rfc_8867() {
    let media = flow("");
    let statistical = VideoSpec::Statistical(StatisticalConfig::default());
    assert_eq!(media.videos, [VideoStream::new("video", statistical)]);
    assert_eq!((media.audio, media.feedback, media.ecn), (None, None, Ecn::NotEct));
    assert_eq!(media.controller, MediaSpec::default_controller());
    let [min, start, max] = ["30 kbit/s", "300 kbit/s", "1569120 bit/s"].map(rate);
    assert_eq!(media.limits, Limits::DEFAULT.with_min(min).with_start(start).with_max(max));
    assert_eq!(media, MediaSpec::new(Some(VideoSpec::default()), None));
    // Sound alone is sound alone.
    let sound = flow("audio = \"20 kbit/s\"");
    assert_eq!((sound.videos.len(), sound.audio), (0, Some(AudioConfig::default())));
}

#[test]
fn every_key_sets_its_field() {
    let media = flow(
        "controller = \"fixed\"
start-rate = \"1 Mbit/s\"
min-rate = \"100 kbit/s\"
max-rate = \"2 Mbit/s\"
feedback = \"rfc8888\"
audio = { rate = \"32 kbit/s\", packet-time = \"40 ms\" }
max-payload = \"1000 B\"
pauses = [[\"40 s\", \"60 s\"], [\"70 s\", \"71 s\"]]
route-changes = [\"40 s\", \"50 s\"]
ecn = \"ect1\"
[flow.video]
model = \"statistical\"
min = \"200 kbit/s\"
max = \"2.5 Mbit/s\"
start = \"300 kbit/s\"
frame-rate = 25
reaction-latency = \"100 ms\"
meanwhile = \"ignored\"
abrupt-change = 0.2
burst-frames = 10
burst-size = 4
interval-scale = 0.05
size-scale = 0.06",
    );
    let statistical = StatisticalConfig {
        limits: RateRange::new(rate("200 kbit/s"), rate("2.5 Mbit/s")).unwrap(),
        start_rate: rate("300 kbit/s"),
        frame_rate: FrameRate::HZ_25,
        reaction_latency: TimeDelta::from_millis(100),
        meanwhile: Meanwhile::Ignored,
        abrupt_change: 0.2,
        burst_frames: 10,
        burst_size: BurstSize::Frames(4.0),
        interval_scale: 0.05,
        size_scale: 0.06,
    };
    let [min, start, max] = ["100 kbit/s", "1 Mbit/s", "2 Mbit/s"].map(rate);
    let (packet_time, clock) = (TimeDelta::from_millis(40), 48_000);
    assert_eq!(
        media,
        MediaSpec {
            codec: None,
            controller: algorithm("fixed"),
            limits: Limits::DEFAULT.with_min(min).with_start(start).with_max(max),
            feedback: Some(FeedbackKind::CongestionControl),
            options: Options::default(),
            receiver_limit: None,
            report_interval: TimeDelta::from_seconds(1),
            videos: vec![VideoStream::new("video", VideoSpec::Statistical(statistical))],
            audio: Some(AudioConfig { rate: rate("32 kbit/s"), packet_time, clock }),
            max_payload: DataSize::from_bytes(1000),
            pauses: vec![(at(40), at(60)), (at(70), at(71))],
            route_changes: vec![at(40), at(50)],
            ecn: Ecn::Ect1,
            repair: RepairSpec::default(),
        }
    );
}

#[test]
fn key_frames_are_requested_by_default_where_they_help() {
    let request = |keys: &str| {
        let media = flow(keys);
        media.repair.key_frame_request(media.codec)
    };
    let av1 = Some(giusto_session::video::VideoCodec::Av1);
    assert_eq!((flow("").codec, flow("codec = \"av1\"").codec), (None, av1));
    for (keys, expected) in [
        ("", KeyFrameRequest::None),
        ("repair = \"nack\"", KeyFrameRequest::PictureLoss),
        ("codec = \"h264\"", KeyFrameRequest::PictureLoss),
        ("key-frame-request = \"fir\"", KeyFrameRequest::FullIntra),
        ("codec = \"vp8\"\nkey-frame-request = \"none\"", KeyFrameRequest::None),
    ] {
        assert_eq!(request(keys), expected, "{keys}");
    }
}

#[test]
fn repair_is_off_unless_named() {
    let repair = |keys: &str| flow(keys).repair;
    assert_eq!(repair(""), repair("repair = \"none\""));
    assert!(!repair("").is_on());
    let nack = repair("repair = \"nack\"\nplayout-deadline = \"250 ms\"\nkey-frame-request = \"fir\"");
    assert_eq!((nack.nack, nack.parity, nack.playout_deadline), (true, None, TimeDelta::from_millis(250)));
    assert_eq!(nack.key_frames, Some(KeyFrameRequest::FullIntra));
    let both = repair("repair = \"nack+flexfec\"\nfec-ratio = 0.25");
    assert_eq!((both.nack, both.parity), (true, Some(ParityRatio::Fixed(0.25))));
    let parity = repair("repair = \"flexfec\"");
    assert_eq!((parity.nack, parity.parity), (false, Some(ParityRatio::Loss)));
    for (keys, named) in [
        ("fec-ratio = 0.2", "fec-ratio needs repair"),
        ("repair = \"flexfec\"\nfec-ratio = 0.6", "fec-ratio: must be above 0, at most 0.5, found 0.6"),
        ("playout-deadline = \"3 s\"", "playout-deadline: must be 1 ms to 2 s, found \"3 s\""),
        ("repair = \"arq\"", "unknown name \"arq\""),
    ] {
        let error = complaint(keys);
        assert!(error.contains(named), "{keys}: {error}");
    }
}

#[test]
fn every_model_can_be_named_with_parameters() {
    let video = |text: &str| flow(&format!("video = {text}")).videos.remove(0).video;
    let perfect = PerfectConfig::default();
    let size = BurstSize::Fixed(DataSize::from_bytes(20_000));
    let key_frames = Some(KeyFrames { size, repaid_in: 30, interval: Some(300) });
    let every_key = "{ model = \"perfect\", lag = \"0 s\", noise = 0.1, key-frames = { size = \"20 kB\", repaid-in = 30, interval = 300 } }";
    let fixed = |size| VideoSpec::Fixed { rate: rate("1 Mbit/s"), size: DataSize::from_bytes(size) };
    let skipping = TraceConfig { skip_frames: 5, ..TraceConfig::default() };
    let slower = StatisticalConfig { frame_rate: FrameRate::HZ_25, ..StatisticalConfig::default() };
    let sizes = FrameSizes::new([9_000, 1_000].map(DataSize::from_bytes)).unwrap();
    let adapts = Some((perfect.limits, rate("150 kbit/s")));
    let recorded = RecordedConfig { sizes, frame_rate: FrameRate::HZ_30, adapts };
    let as_they_are = "{ model = \"recorded\", sizes = [9000, 1000], frame-rate = 25, adapts = false }";
    let played = RecordedConfig { frame_rate: FrameRate::HZ_25, adapts: None, ..recorded.clone() };
    for (text, expected) in [
        ("\"perfect\"", VideoSpec::Perfect(perfect, None)),
        (
            every_key,
            VideoSpec::Perfect(PerfectConfig { lag: TimeDelta::ZERO, key_frames, ..perfect }, Some(0.1)),
        ),
        ("{ model = \"fixed\", rate = \"1 Mbit/s\" }", fixed(1200)),
        ("{ model = \"fixed\", rate = \"1 Mbit/s\", size = \"500 B\" }", fixed(500)),
        ("\"statistical\"", VideoSpec::default()),
        // A table that names no model is of the default one.
        ("{ frame-rate = 30 }", VideoSpec::default()),
        ("{ model = \"trace\", skip-frames = 5 }", VideoSpec::Trace(skipping)),
        ("{ model = \"hybrid\", skip-frames = 5, frame-rate = 25 }", VideoSpec::Hybrid(slower, skipping)),
        ("{ model = \"recorded\", sizes = [9000, 1000] }", VideoSpec::Recorded(recorded)),
        (as_they_are, VideoSpec::Recorded(played)),
    ] {
        assert_eq!(video(text), expected, "{text}");
    }
    let one_rate = "{ model = \"hybrid\", min = \"1 Mbit/s\", max = \"1 Mbit/s\" }";
    assert!(matches!(video(one_rate), VideoSpec::Hybrid(..)));
}

#[test]
fn each_video_has_its_own_id_priority_and_limits() {
    let media = flow(
        "audio = \"20 kbit/s\"
[[flow.video]]
id = \"camera\"
model = \"perfect\"
priority = 2
skip-after = \"100 ms\"
discard-after = \"never\"
pauses = [[\"1 s\", \"2 s\"]]
[[flow.video]]
discard-after = \"1 s\"",
    );
    let [camera, other] = media.videos.as_slice() else { panic!("{:?}", media.videos) };
    let perfect = VideoSpec::Perfect(PerfectConfig::default(), None);
    assert_eq!((camera.id.as_str(), &camera.video, camera.priority), ("camera", &perfect, 2.0));
    let after = |millis| GiveUp::After(TimeDelta::from_millis(millis));
    assert_eq!((camera.skip_after, camera.discard_after), (after(100), GiveUp::Never));
    assert_eq!((&camera.pauses, &other.pauses), (&vec![(at(1), at(2))], &Vec::new()));
    assert_eq!((other.id.as_str(), &other.video, other.priority), ("video-2", &VideoSpec::default(), 1.0));
    assert_eq!((other.skip_after, other.discard_after), (GiveUp::AsController, after(1000)));
    // Each adds what it can use.
    assert_eq!(media.limits.max.as_bps(), 2 * 1_569_120 + 39_200);
    // Names of models do too, and one alone may say as much of itself.
    let both = [("video-1", perfect), ("video-2", VideoSpec::default())];
    let named = flow("video = [\"perfect\", \"statistical\"]").videos;
    assert_eq!(named, both.map(|(id, video)| VideoStream::new(id, video)));
    let alone = flow("video = { id = \"screen\", priority = 0.5 }").videos;
    assert_eq!(alone, [VideoStream::new("screen", VideoSpec::default()).with_priority(0.5)]);
    assert_eq!(flow("video = [\"statistical\"]"), flow(""));
}

#[test]
fn only_some_controllers_have_a_delay_target() {
    let media = flow("controller = \"scream:v2\"\ndelay-target = \"30 ms\"");
    assert_eq!(media.options.delay_target, Some(TimeDelta::from_millis(30)));
    insta::assert_snapshot!(complaint("delay-target = \"30 ms\""), @r#"s.toml:10: flow "call": delay-target: gcc:libwebrtc+giusto has none: remove it, or use scream:rfc8298 or scream:rfc8298+giusto or scream:d00 or scream:d00+giusto or scream:v2"#);
    insta::assert_snapshot!(complaint("controller = \"scream:d00\"\ndelay-target = \"0 s\""), @r#"s.toml:11: flow "call": delay-target: must be 1 ms to 10 s, found "0 s""#);
}

#[test]
fn each_option_belongs_to_a_controller() {
    let media = flow("controller = \"nada\"\npriority = 2");
    assert_eq!((media.options.priority, media.options.probe_while_limited), (Some(2.0), false));
    let media = flow("probe-while-limited = true");
    assert_eq!((media.options.priority, media.options.probe_while_limited), (None, true));
    let media = flow("controller = \"scream:v2\"\nauthors-laws = true");
    assert_eq!(media.options, Options::default().with_authors_laws(true));
    insta::assert_snapshot!(complaint("authors-laws = true"), @r#"s.toml:10: flow "call": authors-laws: gcc:libwebrtc+giusto has none: remove it, or use scream:v2"#);
    insta::assert_snapshot!(complaint("priority = 2"), @r#"s.toml:10: flow "call": priority: gcc:libwebrtc+giusto has no weights: remove it, or use nada or nada:ns3"#);
    insta::assert_snapshot!(complaint("controller = \"nada\"\npriority = 0"), @r#"s.toml:11: flow "call": priority: must be 0.001 to 1000, found 0"#);
    insta::assert_snapshot!(complaint("controller = \"nada\"\nprobe-while-limited = true"), @r#"s.toml:11: flow "call": probe-while-limited: nada does not probe: remove it, or use gcc:libwebrtc or gcc:libwebrtc+giusto"#);
}

#[test]
fn errors_of_several_videos_name_line_and_fix() {
    let several = |more: &str| complaint(&format!("[[flow.video]]\nid = \"camera\"\n[[flow.video]]\n{more}"));
    insta::assert_snapshot!(several("priority = 0"), @r#"s.toml:13: flow "call": video 2: priority: must be 0.001 to 1000, found 0: the default is 1"#);
    insta::assert_snapshot!(several("id = \"screen\"\npriorty = 2"), @r#"s.toml:14: flow "call": video "screen": unknown key "priorty": did you mean "priority"?"#);
    insta::assert_snapshot!(several("id = \"camera\""), @r#"s.toml:12: flow "call": video "camera": id: another video has this id: give each its own"#);
    insta::assert_snapshot!(several("id = \"audio\""), @r#"s.toml:12: flow "call": video "audio": id: this is the id of the audio stream: choose another"#);
    insta::assert_snapshot!(several("id = \"a b\""), @r#"s.toml:12: flow "call": video "a b": id: "a b" cannot be an id: use letters, digits, - and _"#);
    insta::assert_snapshot!(several("skip-after = \"0 s\""), @r#"s.toml:13: flow "call": video 2: skip-after: must be above 0 s, found "0 s", or "never""#);
    insta::assert_snapshot!(several("discard-after = \"nevr\""), @r#"s.toml:13: flow "call": video 2: discard-after: "nevr" is not a duration: write a number and a unit, such as "50 ms""#);
    insta::assert_snapshot!(several("pauses = [[\"2 s\", \"1 s\"]]"), @r#"s.toml:12: flow "call": video "video-2": pauses: a pause must end after it starts, found 2 s to 1 s"#);
    insta::assert_snapshot!(complaint("video = [\"perfect\", \"fixed\"]"), @r#"s.toml:10: flow "call": video 2: rate is missing: add rate = "5 Mbit/s""#);
    insta::assert_snapshot!(complaint("video = []"), @r#"s.toml:10: flow "call": video: the list is empty: add a video, or remove the key"#);
    let many = format!("video = [{}]", vec!["\"perfect\""; 17].join(", "));
    insta::assert_snapshot!(complaint(&many), @r#"s.toml:10: flow "call": video: at most 16 fit into a flow, found 17"#);
}

#[test]
fn errors_of_media_name_line_and_fix() {
    let known = Algorithm::all().map(Algorithm::name).collect::<Vec<_>>().join(", ");
    let fixd =
        "s.toml:10: flow \"call\": controller: unknown name \"fixd\": did you mean \"fixed\"? use one of ";
    assert_eq!(complaint("controller = \"fixd\""), fixd.to_owned() + &known);
    insta::assert_snapshot!(complaint("feedback = \"rfc888\""), @r#"s.toml:10: flow "call": feedback: unknown name "rfc888": did you mean "rfc8888"? use one of transport-wide, rfc8888, scream-draft, nada, remb, reports"#);
    insta::assert_snapshot!(complaint("start = \"1 s\"\nstrat-rate = \"1 Mbit/s\""), @r#"s.toml:11: flow "call": unknown key "strat-rate": did you mean "start-rate"?"#);
    insta::assert_snapshot!(complaint("start-rate = \"3 Mbit/s\""), @r#"s.toml:10: flow "call": start-rate must be between min-rate, 30 kbit/s, and max-rate, 1.56912 Mbit/s, found 3 Mbit/s"#);
    insta::assert_snapshot!(complaint("min-rate = \"3 Mbit/s\"\nmax-rate = \"2 Mbit/s\""), @r#"s.toml:11: flow "call": min-rate must be above 0 bit/s and at most max-rate, 2 Mbit/s, found 3 Mbit/s"#);
    insta::assert_snapshot!(complaint("video = \"perfekt\""), @r#"s.toml:10: flow "call": video: unknown name "perfekt": did you mean "perfect"? use one of fixed, perfect, recorded, statistical, trace, hybrid"#);
    insta::assert_snapshot!(complaint("video = \"fixed\""), @r#"s.toml:10: flow "call": video: rate is missing: add rate = "5 Mbit/s""#);
    insta::assert_snapshot!(complaint("video = { model = \"fixed\", size = \"70 kB\", rate = \"1 Mbit/s\" }"), @r#"s.toml:10: flow "call": video: size: must be 1 B to 65535 B, found "70 kB""#);
    insta::assert_snapshot!(complaint("video = \"recorded\""), @r#"s.toml:10: flow "call": video: sizes is missing: add sizes = [12000, 2500]"#);
    insta::assert_snapshot!(complaint("video = { model = \"recorded\", sizes = [] }"), @r#"s.toml:10: flow "call": video: sizes: number of frame sizes must be 1 to 1000000, found 0"#);
    insta::assert_snapshot!(complaint("video = { model = \"recorded\", sizes = [1000, 5] }"), @r#"s.toml:10: flow "call": video: sizes: frame size in bytes must be 10 to 1000000, found 5"#);
    insta::assert_snapshot!(complaint("video = { model = \"recorded\", sizes = [1000], adapts = false, max = \"1 Mbit/s\" }"), @r#"s.toml:10: flow "call": video: max: adapts = false plays the sizes as recorded: remove it"#);
    insta::assert_snapshot!(complaint("video = { frame-rate = 0 }"), @r#"s.toml:10: flow "call": video: frame-rate: must be 1 to 1000, found 0: the default is 30"#);
    insta::assert_snapshot!(complaint("video = { max = \"100 kbit/s\" }"), @r#"s.toml:10: flow "call": video: the lowest rate, 150 kbit/s, must be above 0 bit/s and not above the highest, 100 kbit/s"#);
    insta::assert_snapshot!(complaint("video = { min = \"1 kbit/s\" }"), @r#"s.toml:10: flow "call": video: 1 kbit/s at 30 Hz gives frames below 10 B: raise the lowest rate, or lower the frame rate"#);
    insta::assert_snapshot!(complaint("video = { size-scale = 1.5 }"), @r#"s.toml:10: flow "call": video: size-scale: must be 0 to 1, found 1.5: the default is 0.15"#);
    insta::assert_snapshot!(complaint("video = { model = \"hybrid\", size-scale = 0.1 }"), @r#"s.toml:10: flow "call": video: unknown key "size-scale": known keys are model, id, priority, skip-after, discard-after, pauses, min, max, start, frame-rate, reaction-latency, meanwhile, abrupt-change, burst-frames, burst-size, interval-scale, skip-frames"#);
    insta::assert_snapshot!(complaint("video = { model = \"trace\", skip-frames = 3600 }"), @r#"s.toml:10: flow "call": video: invalid ladder of traces: it has only skipped frames"#);
    insta::assert_snapshot!(complaint("video = { model = \"perfect\", key-frames = 6 }"), @r#"s.toml:10: flow "call": video: key-frames: expected a table, such as { key = value }, found 6"#);
    insta::assert_snapshot!(complaint("video = { model = \"perfect\", key-frames = { size = 0.5 } }"), @r#"s.toml:10: flow "call": video: key-frames: size: must be 1 to 1000, found 0.5: try 4"#);
    insta::assert_snapshot!(complaint("audio = 20"), @r#"s.toml:10: flow "call": audio: expected a rate with its unit, such as "5 Mbit/s", found 20"#);
    insta::assert_snapshot!(complaint("audio = { packet-time = \"2 s\" }"), @r#"s.toml:10: flow "call": audio: packet-time: must be 1 ms to 1 s, found "2 s": the default is "20 ms""#);
    insta::assert_snapshot!(complaint("max-payload = \"66 kB\""), @r#"s.toml:10: flow "call": max-payload: must be 1 B to 65000 B, found "66 kB": the default is "1200 B""#);
    insta::assert_snapshot!(complaint("pauses = \"40 s\""), @r#"s.toml:10: flow "call": pauses: expected a list, found "40 s""#);
    insta::assert_snapshot!(complaint("pauses = [[\"40 s\"]]"), @r#"s.toml:10: flow "call": pauses 1: expected a pair of values in brackets, found 1"#);
    insta::assert_snapshot!(complaint("pauses = [[\"40 s\", \"60 s\"], [\"50 s\", \"70 s\"]]"), @r#"s.toml:10: flow "call": pauses: sort and join them: one starts at 50 s, the one before ends at 60 s"#);
    insta::assert_snapshot!(complaint("pauses = [[\"40 s\", \"30 s\"]]"), @r#"s.toml:10: flow "call": pauses: a pause must end after it starts, found 40 s to 30 s"#);
    insta::assert_snapshot!(complaint("ecn = \"yes\""), @r#"s.toml:10: flow "call": ecn: unknown name "yes": use one of off, ect0, ect1"#);
}

#[test]
fn a_controller_with_constants_has_four_forms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuned.toml");
    std::fs::write(&path, "# found\nalgorithm = \"nada\"\nkappa = 0.4\ntau = \"0.45 s\"\n").unwrap();
    let given = "nada+kappa=0.4+tau=450ms";
    let own = algorithm("nada").with_constants(&[("kappa", 0.4), ("tau", 450.0)]).unwrap();
    for form in [
        format!("\"{given}\""),
        "\"nada+tau=450 ms+kappa=0.40\"".to_owned(),
        "{ algorithm = \"nada\", kappa = 0.4, tau = \"450 ms\" }".to_owned(),
        format!("\"{}\"", path.display()),
    ] {
        let media = flow(&format!("controller = {form}"));
        assert_eq!((media.controller, media.controller.name()), (own, given), "{form}");
    }
    assert_eq!(flow("controller = { algorithm = \"nada\" }").controller, algorithm("nada"));
    assert_ne!(flow("controller = { algorithm = \"nada\", kappa = 0.5 }").controller, algorithm("nada"));
    // Those of a variant follow its name.
    let variant = flow("controller = \"gcc:libwebrtc+giusto+upper-bound-balance=250kbit/s\"").controller;
    assert_eq!(variant.name(), "gcc:libwebrtc+giusto+upper-bound-balance=250kbit/s");
}

#[test]
fn errors_of_constants_name_line_and_fix() {
    let table = |keys: &str| complaint(&format!("controller = {{ algorithm = \"nada\", {keys} }}"));
    insta::assert_snapshot!(table("kapa = 0.4"), @r#"s.toml:10: flow "call": controller: nada has no constant "kapa": did you mean "kappa"?"#);
    insta::assert_snapshot!(table("kappa = 40"), @r#"s.toml:10: flow "call": controller: kappa must be 0.02 to 2, found 40"#);
    insta::assert_snapshot!(table("kappa = \"0.4\""), @r#"s.toml:10: flow "call": controller: kappa: expected a number, found "0.4""#);
    insta::assert_snapshot!(table("tau = \"4 s\""), @r#"s.toml:10: flow "call": controller: tau must be 100 to 2000 ms, found 4000"#);
    insta::assert_snapshot!(complaint("controller = 5"), @r#"s.toml:10: flow "call": controller: expected a name or a table, such as { algorithm = "nada", kappa = 0.4 }, found 5"#);
    assert!(complaint("controller = \"nada+kappa\"").contains("unknown name \"nada+kappa\""));
    insta::assert_snapshot!(complaint("controller = \"nada+kappa=0.4+tau\""), @r#"s.toml:10: flow "call": controller: "nada+kappa=0.4+tau": expected NAME+CONSTANT=VALUE, such as nada+kappa=0.4, found "tau""#);
    insta::assert_snapshot!(complaint("controller = \"nada+kappa=0.4+kappa=0.5\""), @r#"s.toml:10: flow "call": controller: kappa is set twice: leave one out"#);
    insta::assert_snapshot!(complaint("controller = \"nada+beta-video=2\""), @r#"s.toml:10: flow "call": controller: beta-video must be 0 to 1, found 2"#);
    insta::assert_snapshot!(complaint("controller = \"gcc:thesis+rise=2\""), @r#"s.toml:10: flow "call": controller: gcc:thesis has no constant "rise": it has none"#);
    let missing = complaint("controller = \"nowhere.toml\"");
    assert!(missing.starts_with("s.toml:10: flow \"call\": controller: nowhere.toml"), "{missing}");
}
