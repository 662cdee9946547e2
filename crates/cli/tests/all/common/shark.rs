//! Captures as tshark reads them.

use std::{collections::BTreeMap, path::Path, process::Command};

use super::{skip, text};

const FIELDS: [&str; 13] = [
    "frame.time_epoch",
    "frame.comment",
    "ip.src",
    "ip.dsfield.ecn",
    "udp.dstport",
    "rtp.version",
    "rtcp.version",
    "rtcp.pt",
    "rtcp.rtpfb.fmt",
    "rtcp.rtpfb.transportcc.statuscount",
    "rtcp.psfb.remb.identifier",
    "udp.length",
    "frame.protocols",
];

/// A packet, by its fields; of several values of one field all, with commas between them.
pub(crate) struct Packet(BTreeMap<&'static str, String>);

impl Packet {
    pub(crate) fn field(&self, name: &str) -> &str {
        &self.0[name]
    }

    /// Whether one of the values of a field is this.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.field(name).split(',').any(|own| own == value)
    }

    /// Seconds since 1970.
    pub(crate) fn time(&self) -> f64 {
        self.field("frame.time_epoch").parse().unwrap()
    }
}

/// The packets of a capture whose RTP is at `port`, none of which tshark complains of; `None` where there is no tshark.
pub(crate) fn packets(file: &Path, port: u16) -> Option<Vec<Packet>> {
    let tshark = |args: &[&str]| {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(file).args(["-d", &format!("udp.port=={port},rtp")]);
        command.args(["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
        let Ok(output) = command.args(args).output() else {
            skip("captures", "tshark is not installed");
            return None;
        };
        assert!(output.status.success(), "{}", text(&output.stderr));
        Some(text(&output.stdout))
    };
    let bad = "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0";
    assert_eq!(tshark(&["-Y", bad])?, "", "{}", file.display());
    let fields = FIELDS.iter().flat_map(|field| ["-e", field]);
    let lines = tshark(&["-T", "fields"].into_iter().chain(fields).collect::<Vec<_>>())?;
    let packet = |line: &str| {
        let values = line.split('\t').map(str::to_owned).chain(std::iter::repeat(String::new()));
        Packet(FIELDS.into_iter().zip(values).collect())
    };
    Some(lines.lines().map(packet).collect())
}
