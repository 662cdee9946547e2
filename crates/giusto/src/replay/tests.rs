#[test]
fn dump() {
    let Ok(path) = std::env::var("DUMP") else { return };
    let mut recording = super::open(path.as_ref()).unwrap();
    while let Some(entry) = recording.next_entry().unwrap() {
        let ms = entry.at.as_nanos() / 1_000_000;
        if ms > 400 { break; }
        match entry.event {
            super::Event::Sent(packet) => println!("{ms} sent {} {} {:?}", packet.sequence, packet.size, packet.probe),
            super::Event::Feedback(message) => println!("{ms} feedback {:?}", message.packets.iter().map(|p| (p.sent.sequence, p.arrival.map(|a| a.as_nanos() / 1000))).collect::<Vec<_>>()),
            other => println!("{ms} {other:?}"),
        }
    }
}
