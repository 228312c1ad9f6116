//! Measures the cost of counting one request that does not wait, in nanoseconds. It reads the clock once, when the
//! reply is written. It adds the request's size, duration and work time to distributions, and adds to twelve counters:
//! version, error code, time of the request, requests without another stage, bytes in and out, and requests, records
//! and bytes of all topics and of the request's topic.
//!
//! `cargo run --release -p pybroker-storage --example count_cost`

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pybroker_storage::{Counts, Distribution};

const REQUESTS: u64 = 5_000_000;

fn main() {
    let distributions: Vec<Distribution> = (0..3).map(|_| Distribution::default()).collect();
    let counters: Vec<AtomicU64> = (0..12).map(|_| AtomicU64::new(0)).collect();
    let begun = Instant::now();
    let mut received = begun;
    for request in 0..REQUESTS {
        let written = Instant::now();
        let micros = u64::try_from((written - received).as_micros()).unwrap_or(u64::MAX);
        received = written;
        for (step, each) in distributions.iter().enumerate() {
            each.record(black_box(micros + request % 100 + step as u64));
        }
        for each in &counters {
            // A locked instruction is not needed, because only one thread writes this counter.
            each.store(each.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
    let nanos = begun.elapsed().as_nanos() as f64 / REQUESTS as f64;
    let mut counts = Counts::default();
    distributions[0].add_to(&mut counts);
    println!("{nanos:.1} ns a request, {} counted", counts.count());
}
