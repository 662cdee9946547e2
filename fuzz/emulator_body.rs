//! Function of the fuzz target of the relay: how it groups the datagrams of its clients. The ordinary tests run the seeds in
//! `fuzz/seeds/emulator` through the same code.

use giusto_net::emulate::DatagramRun;

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
    let mut rest = bytes;
    while let [from, scale, length, tail @ ..] = rest {
        // Up to the longest datagram, and many of one length.
        let length = match scale % 4 {
            0 => 0,
            1 => usize::from(*length),
            2 => 1200,
            _ => usize::from(*length) * 256 % 65_508,
        };
        let datagram: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_add(*from)).collect();
        rest = tail;
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
