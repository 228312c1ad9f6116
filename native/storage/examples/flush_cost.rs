//! Measures the time to flush 1, 16, 100 or 1,000 dirty logs, in three ways: one thread, the flusher with one sync per
//! log, the flusher with `syncfs` above its threshold.
//!
//! `cargo run --release -p pybroker-storage --example flush_cost [directory]`

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use pybroker_model::{BatchBuilder, Codec, TopicId, TopicIdPartition, ValidBatches};
use pybroker_storage::{AppendOrigin, Log, LogConfig, LogDir, LogDirOptions, NewPartition};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const NOW_MS: i64 = 1_700_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    println!("| dirty logs | one thread | flusher, one sync a log | flusher, syncfs |");
    println!("|---|---|---|---|");
    for count in [1, 16, 100, 1000] {
        let serial = measure(&parent, count, usize::MAX, false)?;
        let threads = measure(&parent, count, usize::MAX, true)?;
        let grouped = measure(&parent, count, 2, true)?;
        println!(
            "| {count} | {} | {} | {} |",
            ms(serial),
            ms(threads),
            ms(grouped)
        );
    }
    Ok(())
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// Return the median time from the first request until the last log is flushed.
fn measure(
    parent: &str,
    count: i32,
    syncfs_logs: usize,
    flusher: bool,
) -> Result<Duration, Box<dyn Error>> {
    let temp = tempfile::tempdir_in(parent)?;
    let options = LogDirOptions {
        syncfs_logs,
        ..LogDirOptions::new(1, "bench".into())
    };
    let dir = LogDir::open(temp.path(), &options)?;
    let topic_id = TopicId::random();
    let partitions: Vec<_> = (0..count)
        .map(|partition| NewPartition {
            topic: "t".into(),
            id: TopicIdPartition {
                topic_id,
                partition,
            },
            leader_epoch: Some(0),
        })
        .collect();
    for created in dir.create_partitions(&partitions) {
        created?;
    }
    let mut logs: Vec<Arc<Log>> = Vec::new();
    for partition in &partitions {
        let config = Arc::new(LogConfig::default());
        logs.push(
            dir.open_log(&partition.directory(), partition.id, config, NOW_MS)?
                .0,
        );
    }
    let mut builder = BatchBuilder::new(Codec::None);
    builder.push(NOW_MS, None, Some(&[7; 16 << 10]));
    let batch = builder.build()?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for log in &logs {
            let bytes = ValidBatches::checked_owned(batch.clone())?;
            log.append_as_leader(bytes, 0, AppendOrigin::Client, NOW_MS)?;
        }
        let start = Instant::now();
        if flusher {
            logs.iter().for_each(|log| dir.flusher().request(log));
            while logs.iter().any(|log| log.unflushed_records() > 0) {
                dir.check()?;
                std::thread::sleep(Duration::from_micros(20));
            }
        } else {
            for log in &logs {
                log.flush()?;
            }
        }
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[ROUNDS / 2])
}
