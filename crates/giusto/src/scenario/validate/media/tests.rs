use giusto_congestion::{FeedbackKind, Options};
use giusto_session::video::VideoCodec;
use giusto_sim::traffic::encoder::{AudioConfig, StatisticalConfig};

use giusto_units::DataSize;

use super::*;
use crate::{scenario::media::VideoSpec, testing::algorithm};

type Change<'a> = &'a dyn Fn(&mut MediaSpec);

#[test]
fn only_sessions_that_can_be_built_are_valid() {
    let good = || MediaSpec::new(Some(VideoSpec::default()), Some(AudioConfig::default()));
    let with = |change: Change<'_>| {
        let mut media = good();
        change(&mut media);
        media
    };
    let aims = |media: &mut MediaSpec, controller: &str, millis| {
        media.controller = algorithm(controller);
        media.options = Options::default().with_delay_target(Some(TimeDelta::from_millis(millis)));
    };
    let wants = |media: &mut MediaSpec, controller: &str, bps| {
        media.controller = algorithm(controller);
        media.receiver_limit = Some(DataRate::from_bps(bps));
    };
    let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds(seconds);
    let one = DataRate::from_bps(1);
    let wrong: [(&str, Change<'_>); 15] = [
        ("kind", &|own| (own.videos, own.audio) = (Vec::new(), None)),
        ("video", &|own| {
            let bad = StatisticalConfig { size_scale: 2.0, ..StatisticalConfig::default() };
            own.videos = vec![VideoStream::new("camera", VideoSpec::Statistical(bad))];
        }),
        ("audio", &|own| own.audio.as_mut().unwrap().packet_time = TimeDelta::ZERO),
        ("max-payload", &|own| own.max_payload = DataSize::ZERO),
        ("pauses", &|own| own.pauses = vec![(at(2), at(4)), (at(3), at(5))]),
        ("pauses", &|own| own.pauses = vec![(at(2), at(2))]),
        ("start-rate", &|own| own.limits = own.limits.with_start(one)),
        ("max-rate", &|own| own.limits = own.limits.with_max(one)),
        ("feedback", &|own| {
            own.controller = algorithm("gcc:draft-02+giusto");
            own.feedback = Some(FeedbackKind::ReceiverEstimate);
        }),
        ("delay-target", &|own| aims(own, "gcc:libwebrtc+giusto", 30)),
        ("delay-target", &|own| aims(own, "scream:v2", 0)),
        ("delay-target", &|own| aims(own, "scream:v2", 10_001)),
        ("receiver-limit", &|own| wants(own, "scream:d00+giusto", 0)),
        ("receiver-limit", &|own| wants(own, "scream:v2", 1_000_000)),
        ("receiver-limit", &|own| wants(own, "fixed", 1_000_000)),
    ];
    for (place, (key, change)) in wrong.into_iter().enumerate() {
        assert_eq!(validate(&with(change)).map_err(|error| error.0), Err(key), "{place}");
    }
    let right: [Change<'_>; 3] =
        [&|_| (), &|own| aims(own, "scream:v2", 30), &|own| wants(own, "scream:d00+giusto", 1_000_000)];
    for (place, change) in right.into_iter().enumerate() {
        assert_eq!(validate(&with(change)), Ok(()), "{place}");
    }
    for (codec, header) in VideoCodec::ALL.into_iter().zip([1, 2, 1, 1]) {
        let of = |bytes| MediaSpec { codec: Some(codec), max_payload: DataSize::from_bytes(bytes), ..good() };
        assert_eq!(validate(&of(header)).unwrap_err().0, "max-payload", "{codec:?}");
        assert_eq!(validate(&of(header + 1)), Ok(()), "{codec:?}");
        assert_eq!(validate(&MediaSpec { videos: Vec::new(), ..of(1) }), Ok(()), "{codec:?}");
    }
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
        assert_eq!(validate(&media), Ok(()), "{controller}");
        let needs = controller.requirements();
        let options = &media.options;
        let kept = [
            (media.feedback.is_some(), needs.accepts(FeedbackKind::ScreamDraft)),
            (media.receiver_limit.is_some(), needs.receiver_limit),
            (options.delay_target.is_some(), needs.delay_target),
            (options.priority.is_some(), needs.priority),
            (options.authors_laws, needs.authors_laws),
            (options.probe_while_limited, needs.limited_probes),
        ];
        assert!(kept.iter().all(|(is, should)| is == should), "{controller}: {kept:?}");
        assert_eq!(removed.len(), kept.iter().filter(|(is, _)| !is).count(), "{controller}");
    }
}

#[test]
fn no_fix_leads_to_another_error() {
    let media = MediaSpec {
        receiver_limit: Some(DataRate::from_bps(1_000_000)),
        ..MediaSpec::new(Some(VideoSpec::default()), None)
    };
    let message = |controller: &str, feedback| {
        let controller = algorithm(controller);
        validate(&MediaSpec { controller, feedback, ..media.clone() }).unwrap_err().2
    };
    let fix = "receiver-limit: it needs feedback = \"scream-draft\": add that, or remove this";
    assert_eq!(message("scream:d00+giusto", Some(FeedbackKind::CongestionControl)), fix);
    for refusing in ["scream:v2", "fixed"] {
        let fix =
            format!("{refusing} does not support it: remove it, or use scream:d00 or scream:d00+giusto");
        let found = message(refusing, None);
        assert!(found.ends_with(&fix), "{found}");
    }
}

#[test]
fn every_video_must_be_valid_and_have_its_own_id() {
    let video = |id: &str| VideoStream::new(id, VideoSpec::default());
    let check = |videos: Vec<VideoStream>| validate(&MediaSpec::with_videos(videos, None));
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
