//! Function of the fuzz target of the relay: how it groups the datagrams of its clients. The ordinary tests run the seeds in
//! `fuzz/seeds/emulator` through the same code.

use giusto_net::emulate::DatagramRun;

/// The bytes of one input: three of the longest datagrams.
const MAX_BYTES: usize = 200_000;

/// Datagrams of any lengths from three clients, grouped as the relay groups them: each leaves once, whole and in order, towards the
/// client's server, and no call gets more than a UDP message holds.
pub(crate) fn emulator(bytes: &[u8]) {
    let mut run = DatagramRun::default();
    let mut client = None;
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    let mut flush = |run: &mut DatagramRun, client: Option<u8>| {
        assert!(run.bytes().len() <= 65_507 && run.bytes().len() == run.packets() * run.segment());
        for packet in 0..run.packets() {
            let begin = packet * run.segment();
            sent.push((client, run.bytes().get(begin..begin + run.segment()).unwrap_or(b"missing").to_vec()));
        }
        run.clear();
    };
    let (mut rest, mut offered) = (bytes, 0);
    while let ([from, scale, length, tail @ ..], true) = (rest, offered < MAX_BYTES) {
        // Up to the longest datagram, and many of one length.
        let length = match scale % 4 {
            0 => 0,
            1 => usize::from(*length),
            2 => 1200,
            _ => usize::from(*length) * 256 % 65_508,
        };
        let datagram: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_add(*from)).collect();
        rest = tail;
        offered += length * (usize::from(scale / 64) + 1);
        let from = Some(from % 3);
        for _ in 0..=scale / 64 {
            if !run.fits(length) || from != client {
                flush(&mut run, client);
            }
            client = from;
            run.push(&datagram);
            expected.push((from, datagram.clone()));
        }
    }
    flush(&mut run, client);
    assert!(sent == expected, "{} datagrams left instead of {}", sent.len(), expected.len());
}
