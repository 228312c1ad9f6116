//! Shared test helpers: a temporary log directory, and batches.

use crate::{
    AppendError, AppendOrigin, Log, LogAppendInfo, LogConfig, LogDir, LogDirOptions, NewPartition,
    RecoveryReport,
};
use pybroker_model::{
    BatchBuilder, Batches, Codec, Records, TopicId, TopicIdPartition, ValidBatches,
    decompressed_records,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const NOW: i64 = 1_700_000_000_000;
pub(crate) const DIRECTORY: &str = "topic-0";

/// A log directory with one partition, which tests can close and open again.
pub(crate) struct Fixture {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) id: TopicIdPartition,
    pub(crate) config: LogConfig,
    pub(crate) log_dir: Option<Arc<LogDir>>,
    pub(crate) log: Option<Arc<Log>>,
}

impl Fixture {
    pub(crate) fn new(config: LogConfig) -> Self {
        let temp = tempfile::tempdir().expect("temp dir");
        let id = TopicIdPartition {
            topic_id: TopicId::random(),
            partition: 0,
        };
        let mut fixture = Self {
            temp,
            id,
            config,
            log_dir: None,
            log: None,
        };
        let log_dir = fixture.open_dir();
        let new = NewPartition {
            topic: "topic".into(),
            id,
            leader_epoch: Some(0),
        };
        log_dir
            .create_partitions(&[new])
            .remove(0)
            .expect("creates");
        fixture.open();
        fixture
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.temp.path().canonicalize().expect("path")
    }

    pub(crate) fn partition(&self) -> PathBuf {
        self.path().join(DIRECTORY)
    }

    pub(crate) fn open_dir(&mut self) -> Arc<LogDir> {
        let mut options = LogDirOptions::new(1, "cluster".into());
        options.flush_threads = 1;
        let log_dir = LogDir::open(self.temp.path(), &options).expect("opens");
        self.log_dir = Some(Arc::clone(&log_dir));
        log_dir
    }

    /// Open directory and log; the log must be usable.
    pub(crate) fn open(&mut self) -> RecoveryReport {
        let log_dir = match &self.log_dir {
            Some(log_dir) => Arc::clone(log_dir),
            None => self.open_dir(),
        };
        let config = Arc::new(self.config.clone());
        let (log, report) = log_dir
            .open_log(DIRECTORY, self.id, config, NOW)
            .expect("opens");
        self.log = Some(log);
        report
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        self.log.as_ref().expect("open")
    }

    pub(crate) fn dir(&self) -> &Arc<LogDir> {
        self.log_dir.as_ref().expect("open")
    }

    /// Crash as after kill -9: the process writes nothing more.
    pub(crate) fn crash(&mut self) {
        self.log = None;
        self.log_dir = None;
    }

    pub(crate) fn stop(&mut self) {
        let (log, log_dir) = (
            self.log.take().expect("open"),
            self.log_dir.take().expect("open"),
        );
        log_dir
            .close(&[(Arc::clone(&log), log.log_end_offset())])
            .expect("closes");
    }

    pub(crate) fn append(&self, batch: Vec<u8>) -> Result<LogAppendInfo, AppendError> {
        let batch = ValidBatches::checked_owned(batch).expect("a good batch");
        let epoch = self.log().latest_epoch().map_or(0, |entry| entry.epoch);
        self.log()
            .append_as_leader(batch, epoch, AppendOrigin::Verified(i64::MAX), NOW)
    }

    pub(crate) fn files(&self) -> Vec<String> {
        files_in(&self.partition())
    }
}

pub(crate) fn files_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).expect("lists");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort_unstable();
    names
}

/// Return a batch of values, without keys.
pub(crate) fn batch(values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for value in values {
        builder.push(NOW, None, Some(value.as_bytes()));
    }
    builder.build().expect("builds")
}

/// Return a batch of keys and values (`None` = tombstone) at `timestamp`.
pub(crate) fn keyed(codec: Codec, timestamp: i64, pairs: &[(&str, Option<&str>)]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for (key, value) in pairs {
        builder.push(timestamp, Some(key.as_bytes()), value.map(str::as_bytes));
    }
    builder.build().expect("builds")
}

/// Return an idempotent batch.
pub(crate) fn sequenced(producer: i64, epoch: i16, sequence: i32, count: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None).producer(producer, epoch, sequence);
    for index in 0..count {
        builder.push(
            NOW,
            None,
            Some(format!("{producer}/{}", sequence + index as i32).as_bytes()),
        );
    }
    builder.build().expect("builds")
}

/// A record as read back: offset, key, value.
pub(crate) type RecordTuple = (i64, Option<String>, Option<String>);

/// Return all data records from offset `from` on, in order, with reads of at most `max_bytes`.
pub(crate) fn read_from(log: &Log, from: i64, max_bytes: usize) -> Vec<RecordTuple> {
    let mut records = Vec::new();
    let mut offset = from;
    let end = log.log_end_offset();
    while offset < end {
        let bytes = log
            .read(offset, max_bytes, end, true)
            .expect("reads")
            .to_vec()
            .expect("bytes");
        let mut next = offset;
        for batch in Batches::new(&bytes) {
            let (header, batch) = batch.expect("a batch");
            header.check_crc(batch).expect("checksum");
            next = header.next_offset();
            if header.is_control() {
                continue;
            }
            let mut scratch = Vec::new();
            let plain = decompressed_records(&header, batch, &mut scratch).expect("decompresses");
            let iter = Records::new(&header, plain);
            for record in iter.clone() {
                let record = record.expect("a record");
                let text =
                    |bytes: Option<&[u8]>| bytes.map(|b| String::from_utf8_lossy(b).into_owned());
                if iter.offset(&record) >= offset {
                    records.push((iter.offset(&record), text(record.key), text(record.value)));
                }
            }
        }
        if next == offset {
            assert!(bytes.is_empty(), "no progress at {offset}");
            break;
        }
        offset = next;
    }
    records
}

pub(crate) fn values(log: &Log) -> Vec<String> {
    read_from(log, log.log_start_offset(), 1 << 20)
        .into_iter()
        .filter_map(|(_, _, value)| value)
        .collect()
}
