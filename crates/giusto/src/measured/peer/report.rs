//! What iperf3 prints: its version, its JSON, its complaints.

use serde_json::Value;

use super::OwnReport;

/// The report of a run, as the client's `--json` has it.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) own: OwnReport,
    pub(super) sender_cpu_ratio: Option<f64>,
    pub(super) receiver_cpu_ratio: Option<f64>,
}

impl Report {
    /// Reads the report.
    ///
    /// # Errors
    ///
    /// In one line: what the client itself reports as its error, or that this is no report.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let report: Value =
            serde_json::from_str(text).map_err(|error| format!("its report is no JSON: {error}"))?;
        if let Some(error) = report.get("error").and_then(Value::as_str) {
            return Err(one_line(error));
        }
        let field = |path: &str| report.pointer(path);
        let count = |path: &str| field(path).and_then(Value::as_u64);
        let number = |path: &str| field(path).and_then(Value::as_f64);
        let ratio = |path: &str| number(path).map(|percent| percent / 100.0);
        Ok(Self {
            own: OwnReport {
                // The sum of all is the older form.
                sent_packets: count("/end/sum_sent/packets").or_else(|| count("/end/sum/packets")),
                // At the end of a run it may count below zero: duplicates take losses back.
                lost_packets: count("/end/sum/lost_packets"),
                jitter_ms: number("/end/sum/jitter_ms"),
                sent_rate_bps: number("/end/sum_sent/bits_per_second")
                    .or_else(|| number("/end/sum/bits_per_second")),
                received_rate_bps: number("/end/sum_received/bits_per_second"),
            },
            sender_cpu_ratio: ratio("/end/cpu_utilization_percent/host_total"),
            receiver_cpu_ratio: ratio("/end/cpu_utilization_percent/remote_total"),
        })
    }
}

/// The version in the answer to `--version`, such as `3.12` in `iperf 3.12 (cJSON 1.7.15)`.
pub(super) fn version(answer: &str) -> Option<&str> {
    let mut words = answer.lines().next()?.split_whitespace();
    let version = words.next().filter(|&word| word == "iperf").and_then(|_| words.next())?;
    (version == "3" || version.starts_with("3.")).then_some(version)
}

/// The line of a complaint that says what is wrong: the first of iperf3's own, else the first that says anything.
pub(super) fn complaint(stderr: &str) -> Option<String> {
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = lines().find_map(|line| line.strip_prefix("iperf3: "));
    own.or_else(|| lines().next()).map(one_line)
}

/// On one line, at a length that a person reads, and without what would control a terminal.
pub(super) fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let kept = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    kept.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_iperf3_are_known_and_others_are_not() {
        for (answer, expected) in [
            ("iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.1.0\n", Some("3.12")),
            ("iperf 3.21+ (cJSON 1.7.15)", Some("3.21+")),
            ("iperf 3.1.3", Some("3.1.3")),
            ("iperf version 2.1.8 (12 August 2022) pthreads", None),
            ("iperf 30.1", None),
            ("iperf", None),
            ("bash 3.12", None),
            ("", None),
        ] {
            assert_eq!(version(answer), expected, "{answer}");
        }
    }

    #[test]
    fn a_report_gives_the_peers_own_view() {
        let text = r#"{"start": {}, "end": {
            "sum": {"bits_per_second": 1.0, "jitter_ms": 0.0067, "lost_packets": 3, "packets": 622},
            "sum_sent": {"bits_per_second": 999927.0, "packets": 625},
            "sum_received": {"bits_per_second": 999793.0, "packets": 622},
            "cpu_utilization_percent": {"host_total": 2.99, "remote_total": 0.75}}}"#;
        let report = Report::parse(text).unwrap();
        assert_eq!(
            report.own,
            OwnReport {
                sent_packets: Some(625),
                lost_packets: Some(3),
                jitter_ms: Some(0.0067),
                sent_rate_bps: Some(999_927.0),
                received_rate_bps: Some(999_793.0),
            }
        );
        assert!((report.sender_cpu_ratio.unwrap() - 0.0299).abs() < 1e-12);
        assert!((report.receiver_cpu_ratio.unwrap() - 0.0075).abs() < 1e-12);
    }

    #[test]
    fn what_a_report_lacks_is_unknown_and_not_zero() {
        let report =
            Report::parse(r#"{"end": {"sum": {"packets": 9, "lost_packets": -1, "jitter_ms": null}}}"#);
        let report = report.unwrap();
        assert_eq!(report.own, OwnReport { sent_packets: Some(9), ..OwnReport::default() });
        assert_eq!((report.sender_cpu_ratio, report.receiver_cpu_ratio), (None, None));
    }

    #[test]
    fn a_failure_is_told_in_one_line() {
        let refused =
            r#"{"start": {}, "end": {}, "error": "unable to connect\n to server: Connection refused"}"#;
        assert_eq!(Report::parse(refused).unwrap_err(), "unable to connect to server: Connection refused");
        for text in ["", "{", "iperf3: what?"] {
            assert!(Report::parse(text).unwrap_err().starts_with("its report is no JSON: "), "{text}");
        }
    }

    #[test]
    fn the_complaint_is_the_line_that_says_what_is_wrong() {
        let usage =
            "\niperf3: parameter error - block size invalid (minimum = 16 bytes)\n\nUsage: iperf3 [-s]";
        assert_eq!(complaint(usage).unwrap(), "parameter error - block size invalid (minimum = 16 bytes)");
        assert_eq!(complaint("\n  cannot open\tit \x1b[31m\n").unwrap(), "cannot open it [31m");
        assert_eq!(complaint(" \n"), None);
        assert_eq!(one_line(&"ab ".repeat(500)).len(), 200);
    }
}
