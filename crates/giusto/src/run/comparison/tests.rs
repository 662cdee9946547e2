use giusto_congestion::FeedbackKind;

use super::*;

/// Two media flows and one that cannot be chosen.
const FILE: &str = r#"
duration = "2 s"
link = [{ id = "wire", from = "here", to = "there", rate = "8 Mbit/s", duplex = true }]
flow = [
    { id = "call", kind = "media", from = "here", to = "there", feedback = "rfc8888" },
    { id = "share", kind = "media", from = "here", to = "there", controller = "gcc:remb", count = 2 },
    { id = "noise", kind = "cbr", from = "here", to = "there", rate = "64 kbit/s", size = "200 B" },
]
"#;

fn document() -> Document {
    Document::parse(FILE, "s.toml").unwrap()
}

fn controllers_of(contender: &Contender) -> Vec<(String, String)> {
    let flows = contender.scenario.flows().iter();
    flows.filter_map(|flow| Some((flow.id.clone(), flow.kind.controller()?))).collect()
}

#[test]
fn controllers_are_named_once_each_or_all_of_them() {
    assert_eq!("all".parse(), Ok(Controllers(Algorithm::all().collect::<Vec<_>>())));
    let two = Controllers(vec!["scream:v2".parse().unwrap(), "fixed".parse().unwrap()]);
    assert_eq!("scream:v2, fixed".parse(), Ok(two));
    let complaint = |text: &str| text.parse::<Controllers>().unwrap_err();
    assert!(complaint("fixed,fast").starts_with("unknown controller \"fast\": expected one of fixed, gcc:"));
    assert_eq!(complaint("fixed,fixed"), "fixed is given twice: leave one out");
    assert!(complaint("").starts_with("unknown controller \"\""));
}

#[test]
fn every_media_flow_or_the_one_that_is_named_gets_the_controller() {
    let controllers = Controllers(vec!["scream:v2".parse().unwrap()]);
    let of = |flow| controllers_of(&contenders(&document(), &[], &controllers, flow).unwrap()[0]);
    let pairs = |list: [(&str, &str); 2]| list.map(|(id, name)| (id.to_owned(), name.to_owned())).to_vec();
    assert_eq!(of(None), pairs([("call", "scream:v2"), ("share", "scream:v2")]));
    assert_eq!(of(Some("call")), pairs([("call", "scream:v2"), ("share", "gcc:remb")]));
    let complaint = |flow| contenders(&document(), &[], &controllers, Some(flow)).unwrap_err().to_string();
    let known = "no such flow is of kind media: known are call, share";
    assert_eq!(complaint("noise"), format!("--flow noise: {known}"));
    assert_eq!(complaint("share-1"), format!("--flow share-1: {known}"));
}

#[test]
fn feedback_that_a_controller_does_not_hear_gives_way_and_is_note() {
    let controllers = "gcc:remb,scream:v2,gcc:libwebrtc+giusto".parse().unwrap();
    let found = contenders(&document(), &[], &controllers, None).unwrap();
    let feedback = |place: usize| found[place].feedback.values().map(String::as_str).collect::<Vec<_>>();
    assert_eq!([feedback(0), feedback(1)], [["remb", "remb"], ["rfc8888", "rfc8888"]]);
    // What it hears stays, though it would have asked for something else.
    assert_eq!(feedback(2), ["rfc8888", "transport-wide"]);
    let note = "gcc:remb cannot use rfc8888, the feedback of call in the scenario: it gets remb.";
    assert_eq!(notes(&found), [note]);
}

#[test]
fn unsupported_settings_are_removed_and_noted_once() {
    // The file's own controller, gcc:libwebrtc+giusto, cannot have the first.
    let settings: [Setting; 3] =
        ["call.delay-target=30ms", "call.receiver-limit=1M", "call.feedback=scream-draft"]
            .map(|set| set.parse().unwrap());
    let found = contenders(&document(), &settings, &"all".parse().unwrap(), None).unwrap();
    let call = |contender: &Contender| match &contender.scenario.flows()[0].kind {
        FlowKind::Media(media) => (media.options.delay_target.is_some(), media.receiver_limit.is_some()),
        _ => (false, false),
    };
    for contender in &found {
        let needs = contender.controller.requirements();
        assert_eq!(call(contender), (needs.delay_target, needs.receiver_limit), "{}", contender.controller);
    }
    let notes = notes(&found);
    let about = |what: &str| notes.iter().filter(|note| note.contains(what)).collect::<Vec<_>>();
    let unable = Algorithm::all().filter(|kind| !kind.requirements().accepts(FeedbackKind::ScreamDraft));
    assert_eq!(about("cannot use scream-draft").len(), unable.count());
    let without =
        "The delay-target of call in the scenario is left out, since they aim at no delay: fixed, gcc:";
    assert!(matches!(about("delay-target")[..], [note] if note.starts_with(without)), "{notes:?}");
    let last = Algorithm::all().last().map(|kind| format!("{kind}.")).unwrap();
    assert!(matches!(about("receiver-limit")[..], [note] if note.ends_with(&last)), "{notes:?}");
    // What is wrong under any controller that can have it stays an error.
    let wrong = ["call.delay-target=30s".parse().unwrap()];
    let complaint =
        contenders(&document(), &wrong, &"scream:v2".parse().unwrap(), None).unwrap_err().to_string();
    assert!(complaint.contains("delay-target: must be 1 ms to 10 s"), "{complaint}");
}

#[test]
fn text_and_settings_are_left_without_what_a_controller_lacks() {
    let text = FILE.replace("feedback = \"rfc8888\" }", "feedback = \"rfc8888\", delay-target = \"30 ms\" }");
    let tables = "duration = \"2 s\"\n[[link]]\nid = \"wire\"\nfrom = \"here\"\nto = \"there\"\nduplex = true\n[[flow]]\nid = \"call\"\n\
                  kind = \"media\"\ndelay-target = \"30 ms\" # of the call\ncontroller = \"scream:v2\"\n";
    let settings = |texts: &[&str]| texts.iter().map(|set| set.parse().unwrap()).collect::<Vec<Setting>>();
    for (text, given) in [
        (text.as_str(), &["wire.delay=20ms"][..]),
        (tables, &["wire.delay=20ms"][..]),
        (FILE, &["call.delay-target=30ms", "wire.delay=20ms", "flow.call.delay-target=40ms"][..]),
    ] {
        let document = Document::parse(text, "s.toml").unwrap();
        let found = contenders(&document, &settings(given), &"tempo".parse().unwrap(), Some("call")).unwrap();
        let (plain, kept) = found[0].plain(&document, &settings(given)).unwrap();
        assert_eq!(kept, settings(&["wire.delay=20ms"]));
        assert!(!plain.contains("delay-target"), "{plain}");
        let chosen = [kept, settings(&["call.controller=tempo"])].concat();
        let again = Document::parse(&plain, "s.toml").unwrap().scenario(&chosen).unwrap();
        assert_eq!(again.flows(), found[0].scenario.flows());
    }
}

#[test]
fn all_else_is_the_same() {
    let settings: Vec<Setting> = vec!["wire.delay=20ms".parse().unwrap()];
    let controllers = "fixed,gcc:draft-02+giusto".parse().unwrap();
    let found = contenders(&document(), &settings, &controllers, Some("share")).unwrap();
    assert_eq!(found[0].scenario.links(), found[1].scenario.links());
    assert_eq!(found[0].scenario.flows()[0], found[1].scenario.flows()[0]);
    assert_ne!(found[0].scenario.flows()[1], found[1].scenario.flows()[1]);
}
