//! Fuzz target: files of a log directory with damaged or hostile content.

use std::fs;
use std::sync::Arc;

use pybroker_model::{
    BatchBuilder, Codec, TopicId, TopicIdPartition, Uuid, ValidBatches, recompute_crc,
};
use pybroker_storage::{AppendOrigin, LogConfig, LogDir, LogDirOptions, NewPartition};

const NOW_MS: i64 = 1_800_000_000_000;
const IN_PARTITION: [&str; 9] = [
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000001.snapshot",
    "00000000000000000002.log",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "00000000000000000000.log.swap",
];
const IN_DIRECTORY: [&str; 6] = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
];

/// Open a directory with one partition. With any content in one of its files, it opens or fails with an error.
///
/// # Panics
///
/// If the test's directory is not writable, or the product panics.
pub fn log_files(data: &[u8]) {
    let Some((&[chosen, flags], content)) = data.split_first_chunk::<2>() else {
        return;
    };
    let temp = tempfile::tempdir().expect("a temporary directory");
    let new = NewPartition {
        topic: "t".into(),
        id: TopicIdPartition {
            topic_id: TopicId::new(Uuid::from_bytes([7; 16])).expect("an id that is not zero"),
            partition: 0,
        },
        leader_epoch: Some(0),
    };
    let options = LogDirOptions::new(1, "fuzz".into());
    write(temp.path(), &new, &options);
    let chosen = usize::from(chosen) % (IN_PARTITION.len() + IN_DIRECTORY.len());
    let path = match IN_PARTITION.get(chosen) {
        Some(name) => temp.path().join(new.directory()).join(name),
        None => temp.path().join(IN_DIRECTORY[chosen - IN_PARTITION.len()]),
    };
    let mut content = content.to_vec();
    if flags & 1 != 0 && content.len() >= 61 {
        let length = i32::try_from(content.len() - 12).unwrap_or(i32::MAX);
        content[8..12].copy_from_slice(&length.to_be_bytes());
        content[16] = 2;
        recompute_crc(&mut content);
    }
    fs::write(&path, &content).expect("a file of the test");
    if flags & 2 != 0 {
        // Write the file of a clean shutdown, so that opening trusts the other files.
        drop(fs::write(
            temp.path().join(".kafka_cleanshutdown"),
            br#"{"version":0,"brokerEpoch":"-1"}"#,
        ));
    }
    open(temp.path(), &new, &options);
}

fn write(path: &std::path::Path, new: &NewPartition, options: &LogDirOptions) {
    let dir = LogDir::open(path, options).expect("an empty directory");
    for created in dir.create_partitions(std::slice::from_ref(new)) {
        created.expect("a new partition");
    }
    let (log, _) = dir
        .open_log(
            &new.directory(),
            new.id,
            Arc::new(LogConfig::default()),
            NOW_MS,
        )
        .expect("a new log");
    let mut builder = BatchBuilder::new(Codec::None);
    builder.push(NOW_MS, Some(b"k"), Some(b"v"));
    let batch = builder.build().expect("a batch");
    let valid = ValidBatches::checked_owned(batch).expect("a valid batch");
    log.append_as_leader(valid, 0, AppendOrigin::Client, NOW_MS)
        .expect("room for a batch");
}

fn open(path: &std::path::Path, new: &NewPartition, options: &LogDirOptions) {
    let Ok(dir) = LogDir::open(path, options) else {
        return;
    };
    let config = Arc::new(LogConfig::default());
    let Ok((log, _)) = dir.open_log(&new.directory(), new.id, config, NOW_MS) else {
        return;
    };
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    assert!(start <= end, "the log starts at {start} and ends at {end}");
    drop(log.read(start, 1 << 20, end, true));
}
