//! Measures what the log adds to the physical work: CPU per GB of appending 0.93 MB batches against checksum + write
//! alone; creating 1,000 partitions; opening 10,000 logs after a clean stop and after a crash; recovering 1 GB.
//!
//! `cargo run --release -p pybroker-storage --example log_cost [directory [append|partitions]]`

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use pybroker_model::{
    BatchBuilder, Codec, CompressionType, ProduceRules, TimestampType, TopicId, TopicIdPartition,
    crc32c, validate_produce,
};
use pybroker_storage::{
    AppendOrigin, FlushMode, Log, LogConfig, LogDir, LogDirOptions, NewPartition,
};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NOW_MS: i64 = 1_700_000_000_000;
const APPENDS: usize = 1000;

type OpenLogs = (Arc<LogDir>, Vec<Arc<Log>>);

fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let only = std::env::args().nth(2);
    if only.as_deref() != Some("partitions") {
        for (records, size) in [(900, 1024), (9000, 100), (64, 1024), (16, 1024), (1, 100)] {
            append_cost(&parent, records, size)?;
        }
    }
    if only.as_deref() != Some("append") {
        many_partitions(&parent)?;
    }
    Ok(())
}

fn batch_of(records: usize, size: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut builder = BatchBuilder::new(Codec::None);
    let value: Vec<u8> = (0..size).map(|n| n as u8).collect();
    for _ in 0..records {
        builder.push(NOW_MS, None, Some(&value));
    }
    Ok(builder.build()?)
}

fn config() -> Arc<LogConfig> {
    Arc::new(LogConfig {
        flush_mode: FlushMode::Os,
        ..LogConfig::default()
    })
}

fn append_cost(parent: &str, records: usize, size: usize) -> Result<(), Box<dyn Error>> {
    let temp = tempfile::tempdir_in(parent)?;
    let dir = LogDir::open(temp.path(), &LogDirOptions::new(1, "bench".into()))?;
    let new = partition(0, TopicId::random());
    dir.create_partitions(std::slice::from_ref(&new))
        .remove(0)?;
    let (log, _) = dir.open_log(&new.directory(), new.id, config(), NOW_MS)?;
    let mut batch = batch_of(records, size)?;
    let rules = ProduceRules {
        max_message_bytes: 1 << 20,
        compacted: false,
        timestamp_type: TimestampType::CreateTime,
        before_max_ms: i64::MAX,
        after_max_ms: 3_600_000,
        compression_type: CompressionType::Producer,
        zstd_allowed: true,
        now_ms: NOW_MS,
    };
    let bytes = batch.len() * APPENDS;
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(temp.path().join("bare"))?;
    let start = cpu()?;
    for n in 0..APPENDS {
        std::hint::black_box(crc32c(&batch[21..]));
        file.write_all_at(&batch, (n * batch.len()) as u64)?;
    }
    let bare = cpu()? - start;
    drop(file);
    std::fs::remove_file(temp.path().join("bare"))?;
    let start = cpu()?;
    for _ in 0..APPENDS {
        batch[..8].fill(0);
        let valid = validate_produce(&mut batch, &rules)?;
        log.append_as_leader(valid, 0, AppendOrigin::Client, NOW_MS)?;
    }
    let ours = cpu()? - start;
    let per_gb = |time: Duration| time.as_secs_f64() / (bytes as f64 / 1e9);
    println!(
        "batch of {} bytes, {records} records: checksum + write {:.3} s/GB, validate + append {:.3} s/GB ({:.2}x, {:.2} us more a batch)",
        batch.len(),
        per_gb(bare),
        per_gb(ours),
        per_gb(ours) / per_gb(bare),
        (ours.as_secs_f64() - bare.as_secs_f64()) * 1e6 / APPENDS as f64
    );
    if records == 900 {
        log.flush()?;
        drop((log, dir));
        let dir = LogDir::open(temp.path(), &LogDirOptions::new(1, "bench".into()))?;
        let start = Instant::now();
        let (_, report) = dir.open_log(&new.directory(), new.id, config(), NOW_MS)?;
        println!(
            "recovery of {} MB: {:?}",
            report.scanned_bytes / 1_000_000,
            start.elapsed()
        );
    }
    Ok(())
}

/// Return the CPU time of this thread. Wall time would include other processes.
fn cpu() -> Result<Duration, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_whitespace().next().ok_or("empty schedstat")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

fn partition(index: i32, topic_id: TopicId) -> NewPartition {
    NewPartition {
        topic: "topic".into(),
        id: TopicIdPartition {
            topic_id,
            partition: index,
        },
        leader_epoch: Some(0),
    }
}

fn open_all(path: &Path, what: &str, all: &[NewPartition]) -> Result<OpenLogs, Box<dyn Error>> {
    let start = Instant::now();
    let dir = LogDir::open(path, &LogDirOptions::new(1, "bench".into()))?;
    let found = dir.scan()?.len();
    let scanned = start.elapsed();
    let mut logs = Vec::new();
    for new in all {
        logs.push(dir.open_log(&new.directory(), new.id, config(), NOW_MS)?.0);
    }
    println!(
        "{what}: scan of {found} partitions {scanned:?}, with their logs opened {:?}",
        start.elapsed()
    );
    Ok((dir, logs))
}

fn many_partitions(parent: &str) -> Result<(), Box<dyn Error>> {
    let temp = tempfile::tempdir_in(parent)?;
    let topic_id = TopicId::random();
    let all: Vec<_> = (0..10_000).map(|n| partition(n, topic_id)).collect();
    let dir = LogDir::open(temp.path(), &LogDirOptions::new(1, "bench".into()))?;
    for thousand in all.chunks(1000) {
        let start = Instant::now();
        for created in dir.create_partitions(thousand) {
            created?;
        }
        println!("1,000 partitions created in {:?}", start.elapsed());
    }
    drop(dir);
    let (dir, logs) = open_all(temp.path(), "never written, no marker", &all)?;
    let batch = batch_of(1, 100)?;
    for log in &logs {
        let bytes = pybroker_model::ValidBatches::checked_owned(batch.clone())?;
        log.append_as_leader(bytes, 0, AppendOrigin::Client, NOW_MS)?;
    }
    let start = Instant::now();
    let closing: Vec<_> = logs.iter().map(|log| (Arc::clone(log), 1)).collect();
    dir.close(&closing)?;
    println!("clean stop of 10,000 written logs: {:?}", start.elapsed());
    drop((dir, logs, closing));
    let (dir, logs) = open_all(temp.path(), "after a clean stop", &all)?;
    for log in &logs {
        log.begin_epoch(1)?;
    }
    drop((dir, logs));
    open_all(temp.path(), "after a crash", &all)?;
    Ok(())
}
