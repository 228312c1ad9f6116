//! A directory that fails from a given operation on, and batches to write.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use pybroker_metadata_log::{
    Directory, EncodeContext, FileHandle, Files, LogOptions, MetadataLog, RecoveredState,
    encode_records,
};
use pybroker_model::Uuid;
use pybroker_quorum::{Batch, Body, ReplicaKey, VoterSet};

/// Segments of a few batches.
pub(crate) const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 600,
    segment_ms: 1000,
    retention_bytes: 0,
    retention_ms: 0,
    unsynced_bytes_max: 4096,
};

/// A directory that fails at a given operation: a write at that point is half done, and all later operations fail.
#[derive(Clone, Debug)]
pub(crate) struct FailingDirectory {
    directory: Directory,
    left: Rc<Cell<usize>>,
}

#[derive(Debug)]
pub(crate) struct FailingFile {
    file: <Directory as Files>::File,
    left: Rc<Cell<usize>>,
}

#[derive(Debug)]
pub(crate) struct FailingSync<S> {
    sync: S,
    left: Rc<Cell<usize>>,
}

fn dead() -> io::Error {
    io::Error::other("dead")
}

fn count(left: &Cell<usize>) -> io::Result<()> {
    let before = left.get();
    left.set(before.saturating_sub(1));
    if before == 0 { Err(dead()) } else { Ok(()) }
}

impl FailingDirectory {
    pub(crate) fn open(path: &Path, operations: usize) -> Self {
        Self {
            directory: Directory::open(path).expect("a directory"),
            left: Rc::new(Cell::new(operations)),
        }
    }
}

impl Files for FailingDirectory {
    type File = FailingFile;
    type NamesSync = FailingSync<<Directory as Files>::NamesSync>;

    fn names(&self) -> io::Result<Vec<String>> {
        self.directory.names()
    }
    fn open(&self, name: &str) -> io::Result<FailingFile> {
        let file = self.directory.open(name)?;
        let left = Rc::clone(&self.left);
        Ok(FailingFile { file, left })
    }
    fn create(&self, name: &str) -> io::Result<FailingFile> {
        count(&self.left)?;
        let file = self.directory.create(name)?;
        let left = Rc::clone(&self.left);
        Ok(FailingFile { file, left })
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        count(&self.left)?;
        self.directory.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        count(&self.left)?;
        self.directory.remove(name)
    }
    fn begin_names_sync(&self) -> Self::NamesSync {
        let sync = self.directory.begin_names_sync();
        let left = Rc::clone(&self.left);
        FailingSync { sync, left }
    }
    fn end_names_sync(&self, sync: &Self::NamesSync) -> io::Result<()> {
        count(&sync.left)?;
        self.directory.end_names_sync(&sync.sync)
    }
    fn path_of(&self, name: &str) -> String {
        self.directory.path_of(name)
    }
}

impl FileHandle for FailingFile {
    type Sync = FailingSync<<<Directory as Files>::File as FileHandle>::Sync>;

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        if self.left.get() == 1 {
            self.file.write_at(&bytes[..bytes.len() / 2], position)?;
            self.left.set(0);
            return Err(dead());
        }
        count(&self.left)?;
        self.file.write_at(bytes, position)
    }
    fn set_size(&self, size: u64) -> io::Result<()> {
        count(&self.left)?;
        self.file.set_size(size)
    }
    fn begin_sync(&self) -> Self::Sync {
        let left = Rc::clone(&self.left);
        let sync = self.file.begin_sync();
        FailingSync { sync, left }
    }
    fn end_sync(sync: &Self::Sync) -> io::Result<()> {
        count(&sync.left)?;
        <Directory as Files>::File::end_sync(&sync.sync)
    }
}

pub(crate) fn key(id: i32) -> ReplicaKey {
    let directory = Uuid::from_u128(1000 + id.unsigned_abs() as u128);
    ReplicaKey { id, directory }
}

pub(crate) fn voters() -> VoterSet {
    VoterSet::new([key(1), key(2), key(3)])
}

/// A batch with `records` records whose content identifies the batch.
pub(crate) fn data(base_offset: i64, epoch: i32, records: u32) -> Batch<Bytes> {
    let values: Vec<String> = (0..records)
        .map(|index| format!("record {base_offset}+{index} of epoch {epoch}"))
        .collect();
    let values = values.iter().map(|value| value.as_bytes());
    batch(
        base_offset,
        epoch,
        records,
        Body::Data(encode_records(values, 1_000, epoch).expect("records")),
    )
}

pub(crate) fn batch(base_offset: i64, epoch: i32, records: u32, body: Body<Bytes>) -> Batch<Bytes> {
    Batch {
        base_offset,
        records,
        epoch,
        body,
        encoded: None,
    }
}

pub(crate) fn append<F: Files>(
    log: &mut MetadataLog<F>,
    batches: &[Batch<Bytes>],
) -> Result<Vec<Bytes>, pybroker_metadata_log::LogError> {
    let voters = voters();
    let context = EncodeContext {
        timestamp_ms: 1_000,
        voters: &voters,
        endpoints: &[],
    };
    log.append(batches, &context)
}

pub(crate) fn format(path: &Path) {
    let files = Directory::open(path).expect("a directory");
    MetadataLog::format(&files, voters(), &[], 1_000).expect("formatted");
}

pub(crate) fn open(path: &Path) -> (MetadataLog<Directory>, RecoveredState) {
    let files = Directory::open(path).expect("a directory");
    MetadataLog::open(files, OPTIONS).expect("a log")
}

pub(crate) fn refused(path: &Path) -> String {
    let files = Directory::open(path).expect("a directory");
    let error = MetadataLog::open(files, OPTIONS).err();
    error.expect("a damaged log").to_string()
}

pub(crate) fn flush<F: Files>(
    log: &mut MetadataLog<F>,
) -> Result<(), pybroker_metadata_log::LogError> {
    let flush = log.begin_flush();
    flush.run()?;
    log.end_flush()
}

/// Read the whole log in small reads.
pub(crate) fn contents<F: Files>(log: &MetadataLog<F>) -> Vec<Batch<Bytes>> {
    let mut all = Vec::new();
    let mut from = log.start().offset;
    while from < log.end_offset() {
        let bytes = log.read(from, log.end_offset(), 100).expect("batches");
        let batches = pybroker_metadata_log::decode_batches(&bytes).expect("whole batches");
        from = batches.last().expect("a batch").end_offset();
        all.extend(batches);
    }
    all
}
