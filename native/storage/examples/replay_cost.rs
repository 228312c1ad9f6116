//! Measures how much a full journal delays the opening of a log directory: after a kill -9, when the segments already
//! have all of its records, and after a power cut, when they lack them.
//!
//! `cargo run --release -p pybroker-storage --example replay_cost [directory [partitions [bytes]]]`

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use pybroker_model::{BatchBuilder, Codec, TopicId, TopicIdPartition, ValidBatches};
use pybroker_storage::{AppendOrigin, Log, LogConfig, LogDir, LogDirOptions, NewPartition};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NOW_MS: i64 = 1_700_000_000_000;
/// Nearly the size of both journal files together. This example uses a single file of this size, so that no space is
/// freed during the run.
const JOURNAL_BYTES: u64 = 120 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().unwrap_or_else(|| ".".into());
    let partitions = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let bytes = arguments.next().map_or(Ok(4096), |text| text.parse())?;
    for lost in [false, true] {
        let temp = tempfile::tempdir_in(&parent)?;
        let new = partitions_of(partitions);
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(NOW_MS, None, Some(&vec![7; bytes]));
        let batch = builder.build()?;
        let journaled = fill(temp.path(), &new, &batch)?;
        if lost {
            cut(temp.path(), &new, batch.len() as u64)?;
        }
        let begun = Instant::now();
        let dir = LogDir::open(temp.path(), &options())?;
        let replayed = begun.elapsed();
        for one in &new {
            dir.open_log(&one.directory(), one.id, Arc::default(), NOW_MS)?;
        }
        println!(
            "{partitions} partitions, {bytes} bytes each, {} MiB in the journal, {}: the directory open after \
             {replayed:.3?}, all logs after {:.3?}",
            journaled >> 20,
            if lost {
                "not in segments"
            } else {
                "in segments"
            },
            begun.elapsed()
        );
    }
    Ok(())
}

fn options() -> LogDirOptions {
    let mut options = LogDirOptions::new(1, "bench".into());
    options.journal_bytes = JOURNAL_BYTES + (16 << 20);
    options
}

fn partitions_of(count: i32) -> Vec<NewPartition> {
    let topic_id = TopicId::random();
    let new = |partition| NewPartition {
        topic: "t".into(),
        id: TopicIdPartition {
            topic_id,
            partition,
        },
        leader_epoch: Some(0),
    };
    (0..count).map(new).collect()
}

/// Append to all logs repeatedly until the journal is nearly full; return the number of bytes written to it. The last
/// appends stay in the journal, as if the process had died.
fn fill(path: &Path, new: &[NewPartition], batch: &[u8]) -> Result<u64, Box<dyn Error>> {
    let dir = LogDir::open(path, &options())?;
    for created in dir.create_partitions(new) {
        created?;
    }
    let config = Arc::new(LogConfig::default());
    let open = |one: &NewPartition| {
        let opened = dir.open_log(&one.directory(), one.id, Arc::clone(&config), NOW_MS);
        opened.map(|(log, _)| log)
    };
    let logs: Vec<Arc<Log>> = new.iter().map(open).collect::<Result<_, _>>()?;
    while dir.flusher().journal_figures().bytes < JOURNAL_BYTES {
        for log in &logs {
            let valid = ValidBatches::checked_owned(batch.to_vec())?;
            log.append_as_leader(valid, 0, AppendOrigin::Client, NOW_MS)?;
            dir.flusher().request(log);
        }
        while logs.iter().any(|log| log.unflushed_records() > 0) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    Ok(dir.flusher().journal_figures().bytes)
}

/// Truncate each segment to its first batch, which was synced there.
fn cut(path: &Path, new: &[NewPartition], first: u64) -> Result<(), Box<dyn Error>> {
    for one in new {
        let segment = path.join(one.directory()).join("00000000000000000000.log");
        let file = std::fs::File::options().write(true).open(segment)?;
        file.set_len(first)?;
    }
    Ok(())
}
