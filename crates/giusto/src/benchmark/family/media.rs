//! The calls of a scenario: encoder, limits, repair.

use super::super::draw::{Draw, rate, ratio, time};
use super::{CONTROLLER, ECN};

/// Share of the scenarios in which the encoder cannot use the capacity, besides those of the family of that name.
const LIMITED: f64 = 0.1;

/// What the sender does with frames that wait, whichever controller it has: those of 400 ms are of no use in a conversation (ITU-T
/// G.114 §4). Frames that a controller itself asks to drop are a part of its law.
const POLICY: &str = "skip-after = \"never\", discard-after = \"400 ms\"";

/// How many calls are made. The calls of a scenario have the same encoder.
pub(super) struct Encoder {
    /// The maximum rate as a share of the fair share, if the encoder cannot use it.
    pub(super) limited: Option<f64>,
    /// The maximum rate as a multiple of the capacity, if it can.
    headroom: f64,
    /// Frames per second: of slow, of fast media.
    frame_rates: (u64, u64),
    start: f64,
    model: String,
    /// Whether lost packets are repaired.
    pub(super) repair: bool,
    /// Further keys of each call.
    pub(super) more: Vec<String>,
}

/// One call.
pub(super) struct Call<'a> {
    pub(super) id: &'a str,
    pub(super) controller: &'a str,
    /// Start, s.
    pub(super) start: f64,
    /// Its fair share, and the most that it could get, bit/s.
    pub(super) share: f64,
    pub(super) peak: f64,
    pub(super) ecn: &'a str,
}

impl<'a> Call<'a> {
    pub(super) fn new(id: &'a str) -> Self {
        Self { id, controller: CONTROLLER, start: 0.0, share: 1e6, peak: 1e6, ecn: "off" }
    }
}

impl Encoder {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let limited = draw.chance(LIMITED).then(|| draw.uniform(0.3, 0.9));
        let headroom = draw.uniform(1.5, 4.0);
        let frame_rates = (draw.pick(&[15, 25], 25), draw.pick(&[25, 30, 60], 30));
        let start = draw.log_uniform(100e3, 1e6);
        let model = match draw.whole(0, 3) {
            0 => {
                let lag = if draw.chance(0.2) { 0.0 } else { draw.log_uniform(0.02, 0.5) };
                let mut text = format!("model = \"perfect\", lag = {}", time(lag));
                if draw.chance(0.5) {
                    text.push_str(&[", noise = ", &ratio(draw.uniform(0.05, 0.3))].concat());
                }
                if draw.chance(0.3) {
                    let size = ratio(draw.uniform(2.0, 6.0));
                    let frames = draw.whole(60, 300);
                    let frames = frames.to_string();
                    let keys =
                        [", key-frames = { size = ", &size, ", repaid-in = 8, interval = ", &frames, " }"];
                    text.push_str(&keys.concat());
                }
                text
            }
            1 => "model = \"trace\"".to_owned(),
            kind => {
                let model = if kind == 2 { "statistical" } else { "hybrid" };
                let (latency, burst) = (draw.log_uniform(0.05, 0.5), draw.uniform(2.0, 5.0));
                let burst = ratio(burst);
                format!("model = \"{model}\", reaction-latency = {}, burst-size = {burst}", time(latency))
            }
        };
        let repair = draw.chance(0.5);
        Self { limited, headroom, frame_rates, start, model, repair, more: Vec::new() }
    }

    /// The statistical model of RFC 8593 with its values by default, 30 Hz, and repair, for rates up to 1.5 times those of the link.
    pub(super) fn plain() -> Self {
        Self {
            limited: None,
            headroom: 1.5,
            frame_rates: (30, 30),
            start: 300e3,
            model: "model = \"statistical\"".to_owned(),
            repair: true,
            more: Vec::new(),
        }
    }

    /// The flow of a scenario file.
    pub(super) fn text(&self, call: &Call<'_>) -> String {
        let frames = if call.share < 0.5e6 { self.frame_rates.0 } else { self.frame_rates.1 };
        let min = (frames as f64 * 1.5e3).max(30e3);
        let max = self.limited.map_or(call.peak * self.headroom, |part| call.share * part).max(min * 1.2);
        let start = self.start.clamp(min, max);
        let frame_rate =
            if self.model.contains("\"trace\"") { String::new() } else { format!(", frame-rate = {frames}") };
        let ecn =
            if call.controller == CONTROLLER { format!("{ECN}{}@", call.ecn) } else { call.ecn.to_owned() };
        let more = self.more.iter().fold(String::new(), |text, key| text + key + "\n");
        format!(
            "[[flow]]\nid = \"{}\"\nkind = \"media\"\ncontroller = \"{}\"\nfrom = \"sender\"\nto = \"receiver\"\nstart = {}\n\
             start-rate = {}\necn = \"{ecn}\"\nrepair = \"{}\"\n{more}\
             video = {{ {}, min = {}, max = {}, start = {}{frame_rate}, {POLICY} }}\n\n",
            call.id,
            call.controller,
            time(call.start),
            rate(start),
            if self.repair { "nack" } else { "none" },
            self.model,
            rate(min),
            rate(max),
            rate(start),
        )
    }
}
