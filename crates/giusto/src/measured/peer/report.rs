//! The output of iperf3: its version, its JSON report, its error messages.

use serde_json::Value;

/// A peer's report of its own run, by its own timestamps in user space.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PeerReport {
    /// Datagrams sent.
    pub sent_packets: Option<u64>,
    /// The rate of its sender, in bit/s of payload.
    pub sent_rate_bps: Option<f64>,
    /// The rate of its receiver, in bit/s of payload.
    pub received_rate_bps: Option<f64>,
    /// CPU time of its sending process over elapsed time; 1 is one core.
    pub sender_cpu_ratio: Option<f64>,
    /// CPU time of its receiving process over elapsed time; 1 is one core.
    pub receiver_cpu_ratio: Option<f64>,
}

impl PeerReport {
    /// Reads the output of the client's `--json`.
    ///
    /// # Errors
    ///
    /// In one line: the client's own error, or why this is no report.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let report: Value =
            serde_json::from_str(text).map_err(|error| format!("its report is not JSON: {error}"))?;
        if let Some(error) = report.get("error").and_then(Value::as_str) {
            return Err(one_line(error));
        }
        let count = |path: &str| report.pointer(path).and_then(Value::as_u64);
        let number = |path: &str| report.pointer(path).and_then(Value::as_f64);
        let ratio = |path: &str| number(path).map(|percent| percent / 100.0);
        // Older releases have `sum` alone.
        Ok(Self {
            sent_packets: count("/end/sum_sent/packets").or_else(|| count("/end/sum/packets")),
            sent_rate_bps: number("/end/sum_sent/bits_per_second")
                .or_else(|| number("/end/sum/bits_per_second")),
            received_rate_bps: number("/end/sum_received/bits_per_second"),
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

/// The line of standard error that names the problem: iperf3's own first message, else the first line that is not empty.
pub(super) fn complaint(stderr: &str) -> Option<String> {
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = lines().find_map(|line| line.strip_prefix("iperf3: "));
    own.or_else(|| lines().next()).map(one_line)
}

/// The text on one line of at most 200 characters, without control characters.
pub(super) fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_iperf3_are_accepted() {
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
    fn a_report_holds_counts_rates_and_cpu_time() {
        let text = r#"{"start": {}, "end": {
            "sum": {"bits_per_second": 1.0, "jitter_ms": 0.0067, "lost_packets": 3, "packets": 622},
            "sum_sent": {"bits_per_second": 999927.0, "packets": 625},
            "sum_received": {"bits_per_second": 999793.0, "packets": 622},
            "cpu_utilization_percent": {"host_total": 2.5, "remote_total": 0.75}}}"#;
        let expected = PeerReport {
            sent_packets: Some(625),
            sent_rate_bps: Some(999_927.0),
            received_rate_bps: Some(999_793.0),
            sender_cpu_ratio: Some(0.025),
            receiver_cpu_ratio: Some(0.0075),
        };
        assert_eq!(PeerReport::parse(text), Ok(expected));
    }

    #[test]
    fn a_field_that_a_report_lacks_is_unknown() {
        let report = PeerReport::parse(r#"{"end": {"sum": {"packets": 9, "jitter_ms": null}}}"#);
        assert_eq!(report, Ok(PeerReport { sent_packets: Some(9), ..PeerReport::default() }));
    }

    #[test]
    fn a_failure_is_one_line() {
        let refused = r#"{"start": {}, "end": {}, "error": "unable to connect\n to server"}"#;
        assert_eq!(PeerReport::parse(refused).unwrap_err(), "unable to connect to server");
        for text in ["", "{", "iperf3: what?"] {
            assert!(PeerReport::parse(text).unwrap_err().starts_with("its report is not JSON: "), "{text}");
        }
    }

    #[test]
    fn the_complaint_is_the_line_that_names_the_problem() {
        let usage =
            "\niperf3: parameter error - block size invalid (minimum = 16 bytes)\n\nUsage: iperf3 [-s]";
        assert_eq!(complaint(usage).unwrap(), "parameter error - block size invalid (minimum = 16 bytes)");
        assert_eq!(complaint("\n  cannot open\tit \x1b[31m\n").unwrap(), "cannot open it [31m");
        assert_eq!(complaint(" \n"), None);
        assert_eq!(one_line(&"ab ".repeat(500)).len(), 200);
    }
}
