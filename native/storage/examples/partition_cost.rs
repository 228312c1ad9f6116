//! Measures the cost of creating partitions, opening them, staging them for deletion and removing them, many at once.
//! Each round creates the partitions that the previous round removed, as deleting and re-creating a topic does.
//!
//! `cargo run --release -p pybroker-storage --example partition_cost [directory]`

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use pybroker_model::{TopicId, TopicIdPartition};
use pybroker_storage::{Log, LogConfig, LogDir, LogDirOptions, NewPartition};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 5;
const NOW_MS: i64 = 1_700_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    println!("| partitions | make | open | stage | remove |");
    println!("|---|---|---|---|---|");
    for count in [1, 16, 1000] {
        let temp = tempfile::tempdir_in(&parent)?;
        let dir = LogDir::open(temp.path(), &LogDirOptions::new(1, "bench".into()))?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(round(&dir, count)?);
        }
        let medians: Vec<String> = (0..4)
            .map(|step| {
                let mut times: Vec<f64> = rounds.iter().map(|round| round[step]).collect();
                times.sort_unstable_by(f64::total_cmp);
                format!("{:.2} ms", times[ROUNDS / 2])
            })
            .collect();
        println!("| {count} | {} |", medians.join(" | "));
    }
    Ok(())
}

/// Return the milliseconds of each step.
fn round(dir: &LogDir, count: i32) -> Result<[f64; 4], Box<dyn Error>> {
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
    let start = Instant::now();
    for created in dir.create_partitions(&partitions) {
        created?;
    }
    let made = start.elapsed();
    let mut logs: Vec<Arc<Log>> = Vec::new();
    for partition in &partitions {
        let config = Arc::new(LogConfig::default());
        let (log, _) = dir.open_log(&partition.directory(), partition.id, config, NOW_MS)?;
        logs.push(log);
    }
    let opened = start.elapsed();
    let doomed: Vec<&Log> = logs.iter().map(Arc::as_ref).collect();
    for staged in dir.stage_logs(&doomed, NOW_MS) {
        staged?;
    }
    let staged = start.elapsed();
    for waiting in dir.staged_deletions()? {
        dir.purge(&waiting.path)?;
    }
    let removed = start.elapsed();
    let ms = |from: std::time::Duration, to: std::time::Duration| (to - from).as_secs_f64() * 1e3;
    Ok([
        made.as_secs_f64() * 1e3,
        ms(made, opened),
        ms(opened, staged),
        ms(staged, removed),
    ])
}
