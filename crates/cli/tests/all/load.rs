//! `giusto cbr` and `giusto call` beside twelve threads that never sleep.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::common::{count, finished, number, process::Listener, run, skip};
use serde_json::Value;

/// 2 s at 10 Mbit/s in datagrams of 200 B.
const ARGS: [&str; 8] = ["cbr", "--rate", "10M", "--size", "200", "--duration", "2s", "--json"];
const PLANNED: u64 = 12_500;
/// The load of the test delays a thread that only sleeps by less. Where it is delayed more, others load the machine, too: no program
/// can keep a rate there, and the run is not judged.
const LONGEST_DELAY: Duration = Duration::from_millis(50);
const RUNS: usize = 8;

/// Raises the flag when it is dropped, also by a panic, so that the threads end with the test.
struct Load<'a>(&'a AtomicBool);

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Twelve threads that never sleep, and a control: how late a thread wakes that only sleeps. The tests of this file take turns.
fn beside_busy_loops<R>(run: impl FnOnce(&AtomicU64) -> R) -> R {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (ended, delay) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _load = Load(&ended);
        for _ in 0..12 {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        scope.spawn(|| {
            while !ended.load(Relaxed) {
                let begin = Instant::now();
                thread::sleep(Duration::from_millis(5));
                let late = begin.elapsed().saturating_sub(Duration::from_millis(5));
                delay.fetch_max(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            }
        });
        run(&delay)
    })
}

/// The results of `measure`, at most eight times, where the load of the test alone delayed the control: three, or `None`.
fn three_undisturbed<R>(mut measure: impl FnMut() -> R) -> Option<[R; 3]> {
    let mut judged = Vec::new();
    beside_busy_loops(|delay| {
        for _ in 0..RUNS {
            delay.store(0, Relaxed);
            let result = measure();
            if Duration::from_nanos(delay.load(Relaxed)) <= LONGEST_DELAY {
                judged.push(result);
            }
            if judged.len() == 3 {
                break;
            }
        }
    });
    judged.try_into().ok()
}

#[test]
fn the_rate_holds_beside_twelve_busy_loops() {
    let runs = three_undisturbed(|| {
        let run = finished(&run(&ARGS))["runs"][0].clone();
        (received(&run), run)
    });
    let Some(mut judged) = runs else {
        return skip("the rate under load", "other programs load this machine");
    };
    judged.sort_by_key(|(received, _)| *received);
    let (received, run) = &judged[1];
    assert!((PLANNED * 995 / 1000..=PLANNED).contains(received), "{received} of {PLANNED}: {run}");
    // What is owed at the end may take 250 ms longer.
    let rate = number(&run["rx_rate_bps"]) / 1e7;
    assert!((0.88..1.02).contains(&rate), "{run}");
}

/// A call keeps its rate, and its frames do not wait in the sender, whose thread is woken late most of the time.
#[test]
fn a_call_goes_on_beside_twelve_busy_loops() {
    let call = || {
        let listener = Listener::call(&[]);
        let rate =
            ["--start-rate", "600k", "--max-rate", "600k", "--encoder", "perfect", "-t", "4", "--json"];
        let sent = finished(&run(&[&["call", &listener.to()][..], &rate].concat()));
        let (listened, _) = listener.result();
        assert!(sent["call"]["error"].is_null() && listened["call"]["error"].is_null(), "{sent}");
        let flow = &listened["flows"][0];
        assert_eq!(flow["lost_packets"], 0, "{listened}");
        [number(&flow["received_rate_bps"]), number(&flow["frames"]), number(&flow["frame_delay_ms"]["p50"])]
    };
    let Some(mut judged) = three_undisturbed(call) else {
        return skip("a call under load", "other programs load this machine");
    };
    judged.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let [rate, frames, delay] = judged[1];
    assert!((480e3..620e3).contains(&rate), "{judged:?}");
    assert!((105.0..=121.0).contains(&frames), "{judged:?}");
    assert!(delay < 150.0, "{judged:?}");
}

/// The received datagrams of a run whose counts add up, whatever the machine did.
fn received(run: &Value) -> u64 {
    let [sent, received, lost, twice] =
        ["sent_packets", "received_packets", "lost_packets", "duplicate_packets"]
            .map(|name| count(&run[name]));
    assert_eq!(sent + count(&run["slips"]["skipped_packets"]), PLANNED, "{run}");
    assert_eq!((received + lost, twice), (sent, 0), "{run}");
    received
}
