use giusto_sim::medium::Access;

use super::{Node, named};
use crate::scenario::{
    Scenario,
    row::{Group, variant},
};

/// The error for a link with the line `link`, line 7, and a TCP flow with the line `flow`, line 11.
fn complaint(link: &str, flow: &str) -> String {
    let text = format!(
        "duration = \"5 s\"
[[link]]
id = \"wire\"
from = \"here\"
to = \"there\"
duplex = true
{link}
[[flow]]
id = \"bulk\"
kind = \"tcp\"
{flow}
"
    );
    Scenario::parse(&text, "s.toml").unwrap_err().to_string()
}

#[test]
fn a_threshold_without_a_limit_is_refused_with_the_fix() {
    let queue = "queue = { kind = \"step-mark\", threshold = \"unlimited\" }";
    insta::assert_snapshot!(complaint(queue, ""), @r#"s.toml:7: link "wire": queue: threshold: expected a threshold, such as "1 ms", "30 kB" or "20 packets", found "unlimited": to mark nothing, use kind = "drop-tail""#);
}

#[test]
fn a_kind_with_a_row_and_no_reader_is_an_error() {
    const DOOR: Group = Group::new("door", &[]).with_kinds(
        "kind",
        None,
        &[variant("open", "", &[]), variant("ajar", "", &[])],
    );
    let read = |text: &str| {
        let node: Node<'_> = toml::de::DeValue::parse(text).unwrap();
        named(&node, &DOOR, |keys| match keys.kind(&DOOR) {
            Some("open") => Some(true),
            kind => keys.without_reader(kind),
        })
        .map_err(|problems| problems.into_iter().map(|problem| problem.text).collect::<Vec<_>>())
    };
    assert_eq!(read("\"open\""), Ok(Some(true)));
    let ajar = "ajar is known, but not implemented: use another kind";
    assert_eq!(read("\"ajar\""), Err(vec![ajar.to_owned()]));
}

#[test]
fn every_wrong_value_of_a_table_is_reported() {
    insta::assert_snapshot!(complaint("rate = 5\nloss = \"1 %\"\nreorder = 1\nqueue = 3\nrepeat = 2", "mss = \"536\"\ncontrol = \"reno\"\ninitial-window = 0"), @r#"
    s.toml:7: link "wire": rate: expected a rate with its unit, such as "5 Mbit/s", found 5
    s.toml:8: link "wire": loss: expected a number without quotes or unit, such as 0.01, found "1 %"
    s.toml:9: link "wire": reorder: expected true or false, found 1
    s.toml:10: link "wire": queue: expected a name or a table, such as { kind = "drop-tail|codel|fq-codel|pie|red|dualpi2|step-mark|delay-threshold|policer" }, found 3
    s.toml:11: link "wire": unknown key "repeat": known keys are id, from, to, duplex, reverse, rate, medium, delay, queue, loss, jitter, reorder, duplication, corruption, access, frame-error
    s.toml:15: flow "bulk": mss: expected a size with its unit, such as "1200 B", found "536"
    s.toml:16: flow "bulk": control: unknown name "reno": use one of new-reno, cubic, prague, bbr
    s.toml:17: flow "bulk": initial-window: must be 1 to 10, found 0: the default is 10
    "#);
}

#[test]
fn numbers_outside_their_range_are_refused() {
    insta::assert_snapshot!(complaint("", "min-rto = \"61 s\""), @r#"s.toml:11: flow "bulk": min-rto: must be 0 s to 60 s, found "61 s""#);
    insta::assert_snapshot!(complaint("rate = { steps = [[\"0 s\", \"5 Mbit/s\"]], direction = \"side\" }", ""), @r#"s.toml:7: link "wire": rate: direction: unknown name "side": use one of down, up"#);
    insta::assert_snapshot!(complaint("", "initial-window = -99999999999999999999999999999999999999999"), @r#"s.toml:11: flow "bulk": initial-window: must be 1 to 10, found -99999999999999999999999999999999999999999: the default is 10"#);
    insta::assert_snapshot!(complaint("", "initial-window = 11"), @r#"s.toml:11: flow "bulk": initial-window: must be 1 to 10, found 11: the default is 10"#);
    insta::assert_snapshot!(complaint("", "initial-window = 4294967296"), @r#"s.toml:11: flow "bulk": initial-window: must be 1 to 10, found 4294967296: the default is 10"#);
    insta::assert_snapshot!(complaint("", "initial-window = 1.5"), @r#"s.toml:11: flow "bulk": initial-window: expected a whole number, 1 to 10, found 1.5: the default is 10"#);
    insta::assert_snapshot!(complaint("loss = inf", ""), @r#"s.toml:7: link "wire": loss: expected a finite number, found inf"#);
}

#[test]
fn a_link_shares_a_medium_by_its_name() {
    let scenario = |medium: &str, link: &str| {
        let text = format!(
            "duration = \"5 s\"
medium = [{{ id = \"wifi\", kind = \"wifi\"{medium} }}]
link = [{{ id = \"air\", from = \"sta\", to = \"ap\", duplex = true, {link} }}]
flow = [{{ id = \"bulk\", kind = \"tcp\", from = \"sta\", to = \"ap\" }}]
"
        );
        Scenario::parse(&text, "s.toml")
    };
    let good = scenario(", aggregation = 16, retries = 3", "medium = \"wifi\", access = \"video\"").unwrap();
    let config = &good.mediums()[0].config;
    assert_eq!((config.aggregation, config.retries), (16, 3));
    for link in good.links() {
        let station = link.station().unwrap().unwrap();
        assert_eq!((station.rate.as_bps(), station.access), (52_000_000, Access::Video), "{}", link.id);
    }
    let complaint = |medium: &str, link: &str| scenario(medium, link).unwrap_err().to_string();
    insta::assert_snapshot!(complaint("", "medium = \"wfi\""), @r#"s.toml:3: link "air": unknown medium "wfi": did you mean "wifi"? use one of wifi"#);
    insta::assert_snapshot!(complaint(", aggregation = 65", "medium = \"wifi\""), @r#"s.toml:2: medium "wifi": aggregation: must be 1 to 64, found 65: the default is 1"#);
    insta::assert_snapshot!(complaint("", "access = \"video\""), @r#"s.toml:3: link "air": access: only a link on a medium has it: add medium = "ID", or remove this"#);
    insta::assert_snapshot!(complaint("", "medium = \"wifi\", acces = \"video\""), @r#"s.toml:3: link "air": unknown key "acces": did you mean "access"?"#);
    insta::assert_snapshot!(complaint("", "medium = \"wifi\", rate = { token-bucket = \"1 Mbit/s\", burst = \"3 kB\" }"), @r#"s.toml:3: link "air": a link on a medium needs one constant rate, such as "52 Mbit/s""#);
    let both = Scenario::parse(
        "duration = \"5 s\"\n[[link]]\nid = \"\"\nfrom = \"a\"\nto = \"b\"\nduplex = true\n[[flow]]\nid = \"f\"\nkind = \"tcp\"",
        "s.toml",
    );
    insta::assert_snapshot!(both.unwrap_err(), @r#"s.toml:3: link "": "" cannot be an id: use letters, digits, - and _"#);
}

#[test]
fn tcp_without_end_needs_a_route_that_takes_time() {
    let parse = |link: &str, back: &str, flow: &str| {
        let ends = ["from = \"here\"\nto = \"there\"", "from = \"there\"\nto = \"here\""];
        let text = format!(
            "duration = \"5 s\"\n[[link]]\nid = \"wire\"\n{}\n{link}\n[[link]]\nid = \"back\"\n{}\n{back}\n\
             [[flow]]\nid = \"bulk\"\nfrom = \"here\"\nto = \"there\"\n{flow}\n",
            ends[0], ends[1]
        );
        Scenario::parse(&text, "s.toml").map(drop).map_err(|error| error.to_string())
    };
    let tcp = "kind = \"tcp\"";
    insta::assert_snapshot!(parse("", "", tcp).unwrap_err(), @r#"s.toml:16: flow "bulk": it would send without end at one moment, because its route takes no time: give a link of it a rate or a delay"#);
    let (early, late) = (
        "delay = { steps = [[\"0 s\", \"1 ms\"], [\"2 s\", \"0 s\"]] }",
        "delay = { steps = [[\"0 s\", \"0 s\"], [\"2 s\", \"1 ms\"]] }",
    );
    let at_once = "kind = \"short-flows\"\nidle = \"0 s\"";
    for (link, back, flow) in [("", "", at_once), (early, "", tcp), ("", late, tcp)] {
        assert!(parse(link, back, flow).is_err(), "{link:?} {back:?} {flow:?}");
    }
    let (rate, delay) = ("rate = \"10 Gbit/s\"", "delay = \"1 us\"");
    let jitter = "jitter = { kind = \"uniform\", max = \"1 ms\" }";
    let accepted = [
        (rate, "", tcp),
        ("", delay, tcp),
        ("", jitter, tcp),
        (early, late, tcp),
        ("", rate, at_once),
        ("", "", "kind = \"tcp\"\nbytes = \"1 MB\""),
        ("", "", "kind = \"short-flows\""),
        ("", "", "kind = \"media\""),
    ];
    for (link, back, flow) in accepted {
        assert_eq!(parse(link, back, flow), Ok(()), "{link:?} {back:?} {flow:?}");
    }
}
