use giusto_congestion::{FeedbackKind, Options};
use giusto_session::video::VideoCodec;
use giusto_sim::traffic::encoder::{AudioConfig, StatisticalConfig};

use giusto_units::DataSize;

use super::*;
use crate::{scenario::media::VideoSpec, testing::algorithm};

fn check(media: &MediaSpec) -> Result<(), (&'static str, Option<usize>, String)> {
    validate(media)
}

#[test]
fn only_sessions_that_can_be_built_are_valid() {
    let good = MediaSpec::new(Some(VideoSpec::default()), Some(AudioConfig::default()));
    assert_eq!(check(&good), Ok(()));
    let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds(seconds);
    let key = |media: MediaSpec| check(&media).unwrap_err().0;
    assert_eq!(key(MediaSpec { videos: Vec::new(), audio: None, ..good.clone() }), "kind");
    let bad = StatisticalConfig { size_scale: 2.0, ..StatisticalConfig::default() };
    let bad = VideoStream::new("camera", VideoSpec::Statistical(bad));
    assert_eq!(key(MediaSpec { videos: vec![bad], ..good.clone() }), "video");
    let bad = AudioConfig { packet_time: TimeDelta::ZERO, ..AudioConfig::default() };
    assert_eq!(key(MediaSpec { audio: Some(bad), ..good.clone() }), "audio");
    assert_eq!(key(MediaSpec { max_payload: DataSize::ZERO, ..good.clone() }), "max-payload");
    for (codec, header) in VideoCodec::ALL.into_iter().zip([1, 2, 1, 1]) {
        let with = |bytes| MediaSpec {
            codec: Some(codec),
            max_payload: DataSize::from_bytes(bytes),
            ..good.clone()
        };
        assert_eq!(key(with(header)), "max-payload", "{codec:?}");
        assert_eq!(check(&with(header + 1)), Ok(()), "{codec:?}");
        assert_eq!(check(&MediaSpec { videos: Vec::new(), ..with(1) }), Ok(()), "{codec:?}");
    }
    assert_eq!(key(MediaSpec { pauses: vec![(at(2), at(4)), (at(3), at(5))], ..good.clone() }), "pauses");
    assert_eq!(key(MediaSpec { pauses: vec![(at(2), at(2))], ..good.clone() }), "pauses");
    let limits = good.limits.with_start(DataRate::from_bps(1));
    assert_eq!(key(MediaSpec { limits, ..good.clone() }), "start-rate");
    let refusing = (algorithm("gcc:draft-02+giusto"), Some(FeedbackKind::ReceiverEstimate));
    assert_eq!(key(MediaSpec { controller: refusing.0, feedback: refusing.1, ..good.clone() }), "feedback");
    let aims = |controller, millis| MediaSpec {
        controller,
        options: Options::default().with_delay_target(Some(TimeDelta::from_millis(millis))),
        ..good.clone()
    };
    assert_eq!(key(aims(algorithm("gcc:libwebrtc+giusto"), 30)), "delay-target");
    let wants = |controller, bps| MediaSpec {
        controller,
        receiver_limit: Some(DataRate::from_bps(bps)),
        ..good.clone()
    };
    assert_eq!(check(&wants(algorithm("scream:d00+giusto"), 1_000_000)), Ok(()));
    assert_eq!(key(wants(algorithm("scream:d00+giusto"), 0)), "receiver-limit");
    assert_eq!(key(wants(algorithm("scream:v2"), 1_000_000)), "receiver-limit");
    assert_eq!(key(aims(algorithm("scream:v2"), 0)), "delay-target");
    assert_eq!(key(aims(algorithm("scream:v2"), 10_001)), "delay-target");
    assert_eq!(check(&aims(algorithm("scream:v2"), 30)), Ok(()));
    let limits = good.limits.with_max(DataRate::from_bps(1));
    assert_eq!(key(MediaSpec { limits, ..good }), "max-rate");
}

#[test]
fn a_new_controller_removes_only_what_it_lacks() {
    let given = MediaSpec {
        controller: algorithm("scream:d00+giusto"),
        feedback: Some(FeedbackKind::ScreamDraft),
        options: Options::default()
            .with_delay_target(Some(TimeDelta::from_millis(30)))
            .with_priority(Some(2.0))
            .with_probe_while_limited(true)
            .with_authors_laws(true),
        receiver_limit: Some(DataRate::from_bps(1_000_000)),
        ..MediaSpec::new(Some(VideoSpec::default()), None)
    };
    for controller in Algorithm::all() {
        let mut media = given.clone();
        let removed = media.set_controller(controller);
        assert_eq!(check(&media), Ok(()), "{controller}");
        let refusing = !controller.requirements().accepts(FeedbackKind::ScreamDraft);
        assert_eq!(media.feedback.is_none(), refusing, "{controller}");
        assert_eq!(media.receiver_limit.is_some(), controller.requirements().receiver_limit, "{controller}");
        let Options { delay_target, priority, probe_while_limited, authors_laws, .. } = media.options;
        assert_eq!(delay_target.is_some(), controller.requirements().delay_target, "{controller}");
        assert_eq!(priority.is_some(), controller.requirements().priority, "{controller}");
        assert_eq!(authors_laws, controller.requirements().authors_laws, "{controller}");
        assert_eq!(probe_while_limited, controller.requirements().limited_probes, "{controller}");
        let gone = [
            media.feedback.is_none(),
            media.receiver_limit.is_none(),
            delay_target.is_none(),
            priority.is_none(),
            !probe_while_limited,
            !authors_laws,
        ];
        assert_eq!(removed.len(), gone.into_iter().filter(|gone| *gone).count(), "{controller}");
    }
}

#[test]
fn no_fix_leads_to_another_error() {
    let media = MediaSpec {
        receiver_limit: Some(DataRate::from_bps(1_000_000)),
        ..MediaSpec::new(Some(VideoSpec::default()), None)
    };
    let message = |controller| check(&MediaSpec { controller, ..media.clone() }).unwrap_err().2;
    let other = MediaSpec {
        feedback: Some(FeedbackKind::CongestionControl),
        controller: algorithm("scream:d00+giusto"),
        ..media.clone()
    };
    let fix = "receiver-limit: it needs feedback = \"scream-draft\": add that, or remove this";
    assert_eq!(check(&other).unwrap_err().2, fix);
    for refusing in [algorithm("scream:v2"), algorithm("fixed")] {
        let message = message(refusing);
        let fix =
            format!("{refusing} does not support it: remove it, or use scream:d00 or scream:d00+giusto");
        assert!(message.ends_with(&fix), "{message}");
    }
}

#[test]
fn every_video_must_be_valid_and_have_its_own_id() {
    let video = |id: &str| VideoStream::new(id, VideoSpec::default());
    let check = |videos: Vec<VideoStream>| check(&MediaSpec::with_videos(videos, None));
    let place = |videos| check(videos).unwrap_err().1;
    for priority in [0.001, 0.5, 1000.0] {
        assert_eq!(check(vec![video("a"), video("b").with_priority(priority)]), Ok(()), "{priority}");
    }
    assert_eq!(place(vec![video("a"), video("b"), video("a")]), Some(2));
    assert_eq!(place(vec![video("audio")]), Some(0));
    assert_eq!(place(vec![video("a"), video("a b")]), Some(1));
    for priority in [0.0, -1.0, 1e-300, 1001.0, 1e308, f64::NAN, f64::INFINITY] {
        assert_eq!(place(vec![video("a"), video("b").with_priority(priority)]), Some(1), "{priority}");
    }
    let soon = GiveUp::After(TimeDelta::ZERO);
    assert_eq!(place(vec![VideoStream { skip_after: soon, ..video("a") }]), Some(0));
    assert_eq!(place(vec![VideoStream { discard_after: soon, ..video("a") }]), Some(0));
    let many = |all: usize| (1..=all).map(|number| video(&VideoStream::default_id(number, all))).collect();
    assert_eq!(check(many(MOST_VIDEOS)), Ok(()));
    assert_eq!(place(many(MOST_VIDEOS + 1)), None);
}
