//! Measures how a broker copies 1 GB of 16 KB batches from another one, in both flush modes: the time, and the
//! processor time of the follower's and the leader's threads.
//!
//! `cargo run --release -p pybroker-fetcher --example copy_cost [megabytes]`

use std::error::Error;
use std::time::{Duration, Instant};

use pybroker_model::{BatchBuilder, Codec, ValidBatches};
use pybroker_storage::FlushMode;
use support::{order_of, tip, two};

#[path = "../tests/support/mod.rs"]
mod support;

const BATCH_BYTES: usize = 16 * 1024;
const PARTITIONS: i32 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: usize = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 1024,
    };
    println!("| flush mode | seconds | follower's processor seconds | leader's |");
    println!("|---|---|---|---|");
    for mode in [FlushMode::Os, FlushMode::Commit] {
        let (took, follower, leader) = measure(mode, megabytes << 20)?;
        println!(
            "| {mode:?} | {:.2} | {follower:.2} | {leader:.2} |",
            took.as_secs_f64()
        );
    }
    Ok(())
}

/// Append all records first, then start the follower.
fn measure(mode: FlushMode, bytes: usize) -> Result<(Duration, f64, f64), Box<dyn Error>> {
    let brokers = two();
    let orders: Vec<_> = (0..PARTITIONS)
        .map(|partition| {
            let mut order = order_of(tip(1, partition), 1, 0, mode, &[1, 2]);
            let mut config = (*order.config).clone();
            let mut log = (*config.log).clone();
            log.segment_bytes = 1 << 30;
            config.log = log.into();
            order.config = config.into();
            order
        })
        .collect();
    brokers[0].apply(&orders);
    let mut builder = BatchBuilder::new(Codec::None);
    for _ in 0..BATCH_BYTES / 1024 {
        builder.push(0, None, Some(&[b'x'; 1010]));
    }
    let batch = builder.build()?;
    let rounds = bytes / batch.len() / PARTITIONS as usize;
    for order in &orders {
        let led = brokers[0].partition(order.tip);
        for _ in 0..rounds {
            led.append(ValidBatches::checked_owned(batch.clone())?, 1, 0)?;
        }
    }
    let cpu = [processor_seconds("fetcher-"), processor_seconds("data-")];
    let before = Instant::now();
    brokers[1].apply(&orders);
    for order in &orders {
        let (led, follower) = (
            brokers[0].partition(order.tip),
            brokers[1].partition(order.tip),
        );
        while follower.log_end_offset() < led.log_end_offset() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let took = before.elapsed();
    let after = [processor_seconds("fetcher-"), processor_seconds("data-")];
    Ok((took, after[0] - cpu[0], after[1] - cpu[1]))
}

/// Return the processor time of all threads of this process whose name begins with `name` (Linux: in ticks of 10 ms).
fn processor_seconds(name: &str) -> f64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return f64::NAN;
    };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok())
        .filter_map(|stat| {
            let (head, tail) = stat.rsplit_once(')')?;
            let (_, named) = head.split_once('(')?;
            let fields: Vec<&str> = tail.split_whitespace().collect();
            let ticks: f64 =
                fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
            named.starts_with(name).then_some(ticks / 100.0)
        })
        .sum()
}
