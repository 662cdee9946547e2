//! The page of a call to a browser: both ends over time.

use giusto_webrtc::result::BrowserSample;

use super::{Card, Chart, Mark, Report, Section, Series, format, simulation, simulation::doubts_first};
use crate::call::browser::{BrowserRecord, Incoming, IncomingFigures};

/// Samples of the browser between the two ends of an interval: half a second.
const STRIDE: usize = 5;
/// A chart names at most so many freezes.
const MAX_FREEZES: usize = 20;

/// The page of a call to a browser; `command` makes it again.
pub fn browser_call(record: &BrowserRecord, command: impl Into<String>) -> Report {
    let mut report = simulation(&record.record.run, command);
    "giusto call: a browser".clone_into(&mut report.title);
    report.headline = doubts_first(&record.record.call.doubts, &headline(record));
    if record.incoming.is_some() && record.record.call.video.is_none() {
        // What arrived is in the charts of every call.
        report.sections.splice(0..0, [Section::from(incoming_cards(record))]);
        return report;
    }
    let charts = [rates(record), frames(record), delays(record)];
    let drawn = charts.into_iter().filter(|chart| !chart.series.is_empty()).map(Section::from);
    let incoming = record.incoming.as_ref().map(|_| Section::from(incoming_cards(record)));
    let parts = std::iter::once(Section::from(cards(record))).chain(incoming).chain(drawn);
    report.sections.splice(0..0, parts);
    report
}

fn headline(record: &BrowserRecord) -> String {
    let browser = &record.browser;
    if record.record.call.video.is_none()
        && let Some(video) = record
            .incoming
            .as_ref()
            .and_then(|incoming| incoming.streams.iter().find(|stream| is_video(stream)))
    {
        return format!(
            "{} frames of video came from the browser at {}, and {} of {} packets were lost.",
            format::count(video.frames),
            format::brief_rate(video.rate_bps as f64),
            format::count(video.lost_packets),
            format::count(video.packets + video.lost_packets),
        );
    }
    let (Some(rate), Some(frames)) = (browser.received_rate_bps, browser.frames_decoded) else {
        return format!("The call has no figures of the browser: {}.", record.connection.end);
    };
    format!(
        "The browser received {} and decoded {} frames, with {} of {:.1} s in total.",
        format::brief_rate(rate as f64),
        format::count(frames),
        format::plural(browser.freezes.unwrap_or(0), "freeze", "freezes"),
        browser.freezes_s.unwrap_or(0.0),
    )
}

fn cards(record: &BrowserRecord) -> Vec<Card> {
    let (browser, counters) = (&record.browser, &record.connection.counters);
    let known = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), format::count);
    let ms = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.0} ms"));
    vec![
        Card::new(
            "Frames decoded",
            known(browser.frames_decoded),
            format!("of {} sent", format::count(counters.frames)),
        ),
        Card::new(
            "Freezes",
            known(browser.freezes),
            format!("{:.1} s in total", browser.freezes_s.unwrap_or(0.0)),
        ),
        Card::new("Jitter buffer", ms(browser.jitter_buffer_delay_ms), "mean delay of a frame"),
        Card::new("Repair", format::count(counters.retransmitted_datagrams), "packets sent again"),
        Card::new("Key frames", format::count(counters.key_frame_requests), "requested by the browser"),
    ]
}

fn is_video(stream: &IncomingFigures) -> bool {
    stream.kind == Incoming::Video
}

/// What came from the browser.
fn incoming_cards(record: &BrowserRecord) -> Vec<Card> {
    let streams = record.incoming.iter().flat_map(|incoming| &incoming.streams);
    let card = |stream: &IncomingFigures| {
        let name = if is_video(stream) { "Video" } else { "Audio" };
        let size =
            stream.dimensions.map_or_else(String::new, |(width, height)| format!(", {width} × {height}"));
        let jitter =
            stream.jitter_ms.map_or_else(String::new, |ms| format!(", jitter {}", format::time_us(ms * 1e3)));
        let lost = format!(
            "{} of {}",
            format::count(stream.lost_packets),
            format::count(stream.packets + stream.lost_packets)
        );
        Card::new(
            match stream.rid {
                Some(rid) => format!("{name} {rid} from the browser"),
                None => format!("{name} from the browser"),
            },
            format::brief_rate(stream.rate_bps as f64),
            format!(
                "{}{size}: {} frames, {lost} packets lost{jitter}",
                stream.codec,
                format::count(stream.frames)
            ),
        )
    };
    let sent = &record.browser;
    let sent = sent.frames_sent.map(|frames| {
        let allowed = sent
            .available_rate_bps
            .map(|bps| format!("{} allowed by its controller", format::brief_rate(bps as f64)));
        Card::new("Frames sent", format::count(frames), allowed.unwrap_or_default())
    });
    streams.map(card).chain(sent).collect()
}

/// Pairs of samples half a second apart, by the page's clock.
fn intervals(samples: &[BrowserSample]) -> impl Iterator<Item = (&BrowserSample, &BrowserSample, f64)> {
    let later = samples.iter().skip(STRIDE);
    let pairs = samples.iter().zip(later).map(|(from, to)| (from, to, (to.page_ms - from.page_ms) / 1e3));
    pairs.filter(|(.., seconds)| *seconds > 0.0)
}

fn rise(from: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(to? - from.unwrap_or(0.0))
}

fn rates(record: &BrowserRecord) -> Chart {
    let samples: Vec<BrowserSample> = record.browser.samples.iter().cloned().collect();
    let received = intervals(&samples).filter_map(|(from, to, seconds)| {
        let bytes = rise(from.wire_bytes(record.overhead), to.wire_bytes(record.overhead))?;
        Some((to.time_s, bytes * 8.0 / seconds / 1e6))
    });
    let own = |value: fn(&giusto_webrtc::result::Sample) -> u64| -> Vec<(f64, f64)> {
        record.own.iter().map(|sample| (sample.time_s, value(sample) as f64 / 1e6)).collect()
    };
    chart(
        "Rates at both ends",
        "Target of the controller, datagrams sent here, datagrams received by the browser.",
        "Mbit/s",
        [
            ("target", own(|sample| sample.target_rate_bps)),
            ("sent", own(|sample| sample.sent_rate_bps)),
            ("received by the browser", received.collect()),
        ],
    )
}

fn frames(record: &BrowserRecord) -> Chart {
    let samples: Vec<BrowserSample> = record.browser.samples.iter().cloned().collect();
    let decoded = intervals(&samples).filter_map(|(from, to, seconds)| {
        Some((to.time_s, rise(from.frames_decoded, to.frames_decoded)? / seconds))
    });
    let mut chart = chart(
        "Frames decoded by the browser",
        "In the last half second. Marks: a freeze, by the browser's definition.",
        "frames/s",
        [("decoded", decoded.collect())],
    );
    let before = samples.iter().map(|sample| sample.freezes.unwrap_or(0.0));
    let freezes =
        samples.iter().skip(1).zip(before).filter(|(sample, before)| sample.freezes.unwrap_or(0.0) > *before);
    for (sample, _) in freezes.take(MAX_FREEZES) {
        chart = chart.with_mark(Mark::AtX(sample.time_s, "freeze".to_owned()));
    }
    chart
}

fn delays(record: &BrowserRecord) -> Chart {
    let samples: Vec<BrowserSample> = record.browser.samples.iter().cloned().collect();
    let buffer = intervals(&samples).filter_map(|(from, to, _)| {
        let sum = rise(from.jitter_buffer_sum_s, to.jitter_buffer_sum_s)?;
        let frames =
            rise(from.jitter_buffer_frames, to.jitter_buffer_frames).filter(|frames| *frames > 0.0)?;
        Some((to.time_s, sum / frames * 1e3))
    });
    let rtt = samples.iter().filter_map(|sample| Some((sample.time_s, sample.rtt_s? * 1e3)));
    chart(
        "Delays",
        "Jitter buffer of the browser, its round-trip time of ICE, and the age of the oldest packet in the queue here.",
        "ms",
        [
            ("jitter buffer", buffer.collect()),
            ("round-trip time", rtt.collect()),
            ("queue here", record.own.iter().map(|sample| (sample.time_s, sample.queue_delay_ms)).collect()),
        ],
    )
}

/// A chart over the time of the call; lines without points are left out.
fn chart<const N: usize>(
    title: &str,
    caption: &str,
    unit: &str,
    lines: [(&str, Vec<(f64, f64)>); N],
) -> Chart {
    let chart = Chart::new(title, caption).with_axes("time in s", unit).with_full_width();
    let drawn = lines.into_iter().filter(|(_, points)| !points.is_empty());
    drawn.fold(chart, |chart, (name, points)| chart.with_series(Series::line(name, points)))
}
