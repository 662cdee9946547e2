//! Requests of key frames: PLI (RFC 4585 §6.3.1) and FIR (RFC 5104 §4.3.1).

/// Payload-specific feedback.
const PAYLOAD_SPECIFIC: u8 = 206;
const PLI: u8 = 1;
const FIR: u8 = 4;

/// The number of requests for `ssrc` in compound RTCP.
pub(crate) fn requests(compound: &[u8], ssrc: u32) -> u64 {
    let (mut rest, mut count) = (compound, 0);
    let wanted = ssrc.to_be_bytes();
    while let [first, kind, high, low, ..] = *rest {
        let length = 4 + 4 * usize::from(u16::from_be_bytes([high, low]));
        let Some((packet, after)) = rest.split_at_checked(length) else { break };
        if kind == PAYLOAD_SPECIFIC && first & 0x1f == PLI {
            count += u64::from(packet.get(8..12) == Some(&wanted));
        } else if kind == PAYLOAD_SPECIFIC && first & 0x1f == FIR {
            let entries = packet.get(12..).unwrap_or_default().chunks_exact(8);
            count += u64::from(entries.into_iter().any(|entry| entry.starts_with(&wanted)));
        }
        rest = after;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_for_one_source() {
        // RFC 4585 §6.1: header, sender's source, media source.
        let pli = [0x81, 206, 0, 2, 0, 0, 0, 1, 0, 0, 0, 7];
        // RFC 5104 §4.3.1.1: the media source is 0, and each entry has a source, a number and 24 reserved bits.
        let fir = [0x84, 206, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 3, 0, 0, 0];
        let report = [0x80, 201, 0, 1, 0, 0, 0, 1];
        let compound = [&report[..], &pli, &fir].concat();
        assert_eq!(requests(&compound, 7), 2);
        assert_eq!(requests(&compound, 8), 0);
        for length in 0..compound.len() {
            assert!(requests(&compound[..length], 7) < 2);
        }
    }
}
