//! `giusto cbr` beside twelve threads that never sleep.
//!
//! The load makes the machine busy, so a machine that is busy anyway changes little.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::{giusto, json, text};
use serde_json::Value;

/// Raises the flag when it is dropped, also by a panic, so that the busy threads end with the test.
struct Load<'a>(&'a AtomicBool);

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn the_rate_holds_beside_twelve_busy_loops() {
    let ended = AtomicBool::new(false);
    let runs = std::thread::scope(|scope| {
        let _load = Load(&ended);
        for _ in 0..12 {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let args = ["cbr", "--rate", "10M", "--size", "200", "--duration", "2s", "--json"];
        [(); 3].map(|()| {
            let output = giusto(&args).output().unwrap();
            // 3: measured, but this machine was overloaded.
            assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
            json(&output)["runs"][0].clone()
        })
    });
    let mut ratios = runs.each_ref().map(|run| {
        let count = |name: &str| run[name].as_u64().unwrap_or_else(|| panic!("no {name} in {run}"));
        // 2 s at 10 Mbit/s in datagrams of 200 B.
        assert_eq!(
            count("sent_packets") + run["slips"]["skipped_packets"].as_u64().unwrap(),
            12_500,
            "{run}"
        );
        assert_eq!(count("received_packets") + count("lost_packets"), count("sent_packets"), "{run}");
        assert_eq!(count("duplicate_packets"), 0, "{run}");
        let rate = run["rx_rate_bps"].as_f64().unwrap() / 1e7;
        rate.min(count("received_packets") as f64 / 12_500.0)
    });
    ratios.sort_by(f64::total_cmp);
    assert!((0.995..1.02).contains(&ratios[1]), "{ratios:?}: {}", Value::from_iter(runs));
}
