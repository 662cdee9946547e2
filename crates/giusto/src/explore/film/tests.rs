use crate::explore::{Explorer, Film, Side};

fn film(name: &str, settings: &[(&str, &str)]) -> Film {
    let settings = settings.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    Explorer::new(None).film(&Side { scenario: Some(name.to_owned()), settings }).unwrap()
}

/// The packets of a flow: the time to the queue, that in it, that after it, and the fate.
fn of(film: &Film, flow: i64) -> Vec<[i64; 4]> {
    let packets = film.packets.chunks_exact(6).filter(|packet| packet[0] == flow);
    packets.map(|packet| [packet[2], packet[3], packet[4], packet[5]]).collect()
}

#[test]
fn a_film_has_the_packets_that_the_record_counts() {
    let film = film("queues/bufferbloat", &[("duration", "20 s"), ("warmup", "0 s")]);
    for (number, flow) in (0..).zip(&film.record.flows) {
        let packets = of(&film, 2 * number);
        assert_eq!(packets.len() as u64, flow.sent_packets, "{}", flow.id);
        let with = |fate: i64| packets.iter().filter(|own| own[3] & 3 == fate).count() as u64;
        assert_eq!((with(1), with(2)), (flow.received_packets, flow.lost_packets), "{}", flow.id);
        // TCP is answered, a constant bit rate is not.
        assert_eq!(of(&film, 2 * number + 1).is_empty(), flow.kind != "tcp", "{}", flow.id);
        let queue = flow.queue_delay_ms.unwrap().max;
        let longest = packets.iter().map(|own| own[1]).max().unwrap() as f64 / 10.0;
        assert!((longest - queue).abs() <= 0.02 * queue + 0.2, "{}: {longest} of {queue} ms", flow.id);
    }
    assert!((film.end_s - 20.0).abs() < 1e-9);
}

#[test]
fn the_timeline_of_a_film_has_no_window_of_nanoseconds() {
    // 40 s are no multiple of the windows. The rest of a byte would be 50 Mbit/s in 160 ns.
    let film = film("lessons/07-gcc", &[]);
    let timeline = film.record.timeline.unwrap();
    let most = timeline.links[0].capacity_bps.iter().flatten().fold(0.0, |most: f64, own| most.max(*own));
    assert!((most - 3e6).abs() < 10.0 && timeline.t_s.len() == 240, "{most}, {}", timeline.t_s.len());
}

#[test]
fn a_film_ends_where_it_is_full_and_its_record_does_not() {
    let film = film("tcp/one-cubic", &[("duration", "60 s"), ("wire.rate", "100 Mbit/s")]);
    assert!(film.packets.len() == 6 * super::MAX_PACKETS && film.end_s < film.record.duration_s);
    let last = film.packets.chunks_exact(6).map(|packet| packet[1]).sum::<i64>() as f64 / 1e4;
    assert!(last <= film.end_s && film.end_s < last + 1.0, "{last} {}", film.end_s);
}

#[test]
fn the_frames_of_a_film_are_those_of_the_record() {
    let film = film("media/media", &[]);
    let delays: Vec<f64> = film.frames.chunks_exact(4).map(|frame| frame[2] as f64 / 10.0).collect();
    let own = &film.record.flows[0];
    let longest = delays.iter().copied().fold(0.0, f64::max);
    assert!((longest - own.frame_delay_ms.unwrap().max).abs() < 1.0, "{longest} {:?}", own.frame_delay_ms);
    assert!(delays.len() as u64 >= own.frames.unwrap() && own.frames.unwrap() > 100, "{:?}", own.frames);
}
