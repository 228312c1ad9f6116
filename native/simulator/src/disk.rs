//! A replica's disk: the real metadata log on simulated files, and the log's expected content.

use std::collections::VecDeque;

use bytes::Bytes;
use pybroker_metadata_log::{
    EncodeContext, Flush, LogError, LogOptions, MetadataLog, SnapshotReader, SnapshotWriter,
    StateWrite, decode_batches, encode_records, record_values,
};
use pybroker_quorum::{
    Batch, Body, EpochEnd, LogIndex, QuorumState, ReplicaKey, Snapshot, SnapshotHeader, VoterSet,
};

use crate::files::{Damage, SimulatedFiles};
use crate::metadata_log::{Contents, DiskError};
use crate::random::Random;

type Log = MetadataLog<SimulatedFiles>;

/// Small segments and few unsynced bytes, so that the log rolls and flushes by itself.
const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 1500,
    segment_ms: i64::MAX,
    retention_bytes: 0,
    retention_ms: 0,
    unsynced_bytes_max: 1000,
};

#[derive(Debug, Clone)]
enum Write {
    Append(Batch<u64>),
    Truncate(i64),
}

/// A running flush.
#[derive(Debug)]
struct RunningFlush {
    ticket: u64,
    flush: Flush<SimulatedFiles>,
    /// Number of the unflushed writes that the flush covers.
    writes: usize,
}

/// A replica's disk. The process sees its writes immediately. A power cut keeps the flushed writes and some of the
/// others.
#[derive(Debug)]
pub(crate) struct SimulatedDisk {
    /// The replica that owns the disk; the same node with another disk is another replica.
    pub(crate) key: ReplicaKey,
    /// The log as the process sees it.
    pub(crate) cached: Contents,
    /// The log as of its last flush.
    pub(crate) durable: Contents,
    /// The end of the log that survives a power cut, and the hash of the log up to that end.
    floor: (i64, u64),
    files: SimulatedFiles,
    /// The log of the running process.
    log: Option<Log>,
    unflushed: VecDeque<Write>,
    flushes: VecDeque<RunningFlush>,
    states: VecDeque<(u64, StateWrite<SimulatedFiles>)>,
    /// The next flush or state write fails.
    pub(crate) fails: bool,
}

impl SimulatedDisk {
    /// Create a formatted disk.
    #[must_use]
    pub(crate) fn new(key: ReplicaKey, voters: VoterSet) -> Self {
        let files = SimulatedFiles::new();
        Log::format(&files, voters.clone(), &[], 0).expect("a good disk");
        let contents = Contents::formatted(voters);
        Self {
            key,
            cached: contents.clone(),
            durable: contents,
            floor: (0, 0),
            files,
            log: None,
            unflushed: VecDeque::new(),
            flushes: VecDeque::new(),
            states: VecDeque::new(),
            fails: false,
        }
    }

    /// Set whether appends fail.
    pub(crate) fn set_full(&self, full: bool) {
        self.files.set_full(full);
    }

    /// Return whether appends fail.
    pub(crate) fn is_full(&self) -> bool {
        self.files.is_full()
    }

    /// Close the log of a process whose disk is full: its writes stay, and the disk thread finishes its jobs.
    pub(crate) fn close(&mut self) {
        for (_, write) in self.states.drain(..) {
            // Ignore the error of a full disk.
            let _ = write.run();
        }
        self.unflushed.clear();
        self.flushes.clear();
        self.log = None;
    }

    /// Cut the power, or end the process before the system has executed its writes.
    pub(crate) fn cut_power(&mut self, random: &mut Random) -> Damage {
        // Some of the unreported writes of the state may have reached the disk.
        let written = random.index(self.states.len() + 1);
        for (_, write) in self.states.drain(..).take(written) {
            // Ignore the error of a full disk.
            let _ = write.run();
        }
        self.unflushed.clear();
        self.flushes.clear();
        self.log = None;
        self.files.cut_power(random)
    }

    /// Append batches.
    pub(crate) fn append(&mut self, batches: &[Batch<u64>]) -> Result<(), DiskError> {
        let voters = VoterSet::empty();
        let context = EncodeContext {
            timestamp_ms: 0,
            voters: &voters,
            endpoints: &[],
        };
        let stored: Vec<Batch<Bytes>> = batches.iter().map(to_stored).collect();
        self.log_mut()
            .append(&stored, &context)
            .map_err(|_| DiskError)?;
        for batch in batches {
            self.cached.push(batch.clone());
            self.unflushed.push_back(Write::Append(batch.clone()));
        }
        Ok(())
    }

    /// Truncate the log. The removed batches need no longer survive a power cut.
    pub(crate) fn truncate(&mut self, end: i64) -> Result<(), DiskError> {
        if let Some(chain) = self.cached.chain_at(end)
            && end < self.floor.0
        {
            self.floor = (end, chain);
        }
        self.log_mut().truncate(end).map_err(|_| DiskError)?;
        self.cached.truncate(end);
        self.unflushed.push_back(Write::Truncate(end));
        Ok(())
    }

    /// Replace the log by a snapshot.
    pub(crate) fn install(&mut self, snapshot: Snapshot<u64>) -> Result<(), DiskError> {
        let id = snapshot.header.id;
        // Download the leader's file in small parts.
        let leaders = SimulatedFiles::new();
        write_snapshot(&leaders, &snapshot).expect("an empty disk");
        let whole = SnapshotReader::open(&leaders, id).expect("a snapshot");
        let log = self.log_mut();
        let mut download = log.begin_download(id).map_err(|_| DiskError)?;
        while download.position() < whole.size() {
            let part = whole.part(download.position(), 100).expect("a part");
            download.write(&part).map_err(|_| DiskError)?;
        }
        let header = download.complete().expect("a whole snapshot");
        assert_eq!(header, snapshot.header, "a snapshot says what was written");
        // During the installation, a power cut may leave the old or the new log: both are correct.
        self.floor = (0, 0);
        self.log_mut().install(id).map_err(|_| DiskError)?;
        self.floor = (id.offset, snapshot.content);
        self.cached = Contents::of(snapshot);
        self.durable = self.cached.clone();
        self.unflushed.clear();
        self.flushes
            .iter_mut()
            .for_each(|running| running.writes = 0);
        Ok(())
    }

    /// Return up to `batches_max` batches from offset `from` on, below `to`.
    #[must_use]
    pub(crate) fn read(&self, from: i64, to: i64, batches_max: usize) -> Vec<Batch<u64>> {
        let log = self.log.as_ref().expect("a running process");
        let bytes = log.read(from, to, 4096).expect("a good disk");
        let batches = decode_batches(&bytes).expect("intact batches");
        batches.iter().take(batches_max).map(from_stored).collect()
    }

    /// Return the latest snapshot.
    #[must_use]
    pub(crate) fn snapshot(&self) -> &Snapshot<u64> {
        &self.cached.snapshot
    }

    /// Begin a flush of all writes so far.
    pub(crate) fn begin_flush(&mut self, ticket: u64) {
        let flush = self.log_mut().begin_flush();
        self.flushes.push_back(RunningFlush {
            ticket,
            flush,
            writes: self.unflushed.len(),
        });
    }

    /// Complete a flush.
    pub(crate) fn end_flush(&mut self, ticket: u64) -> Result<(), DiskError> {
        if std::mem::take(&mut self.fails) {
            return Err(DiskError);
        }
        let first = self.flushes.front().map(|running| running.ticket);
        let Some(running) = (first == Some(ticket))
            .then(|| self.flushes.pop_front())
            .flatten()
        else {
            return Ok(());
        };
        running.flush.run().expect("a good disk");
        self.log_mut().end_flush().expect("a good disk");
        for write in self.unflushed.drain(..running.writes) {
            match write {
                Write::Append(batch) => self.durable.push(batch),
                Write::Truncate(end) => self.durable.truncate(end),
            }
        }
        for later in &mut self.flushes {
            later.writes -= running.writes;
        }
        // Raise the floor only to an end that the log still has: batches truncated since need not survive a power cut.
        let end = self.durable.end();
        let chain = self.durable.chain_at(end);
        if let Some(chain) = chain.filter(|_| self.cached.chain_at(end) == chain)
            && end > self.floor.0
        {
            self.floor = (end, chain);
        }
        Ok(())
    }

    /// Begin a write of the quorum state.
    pub(crate) fn begin_state(&mut self, ticket: u64, state: QuorumState) {
        let write = self.log_mut().state_write(state);
        self.states.push_back((ticket, write));
    }

    /// Complete a write of the quorum state.
    pub(crate) fn end_state(&mut self, ticket: u64) -> Result<(), DiskError> {
        if std::mem::take(&mut self.fails) {
            return Err(DiskError);
        }
        while self
            .states
            .front()
            .is_some_and(|(pending, _)| *pending <= ticket)
        {
            if let Some((_, write)) = self.states.pop_front() {
                write.run().map_err(|_| DiskError)?;
            }
        }
        Ok(())
    }

    /// Write a snapshot and remove the log before the older of the two kept snapshots, durably. Return the new start of
    /// the log.
    pub(crate) fn write_snapshot(&mut self, header: &SnapshotHeader) -> Option<EpochEnd> {
        let content = self.cached.chain_at(header.id.offset)?;
        let snapshot = Snapshot {
            header: header.clone(),
            content,
        };
        write_snapshot(&self.files, &snapshot).ok()?;
        let start = self.log_mut().snapshot_written(header.id, 0);
        let start = start.expect("a good disk")?;
        for contents in [&mut self.cached, &mut self.durable] {
            let before = contents.snapshot.header.clone();
            if let Some(chain) = contents.chain_at(start.offset) {
                contents.entries.drain(..contents.index_after(start.offset));
                contents.start = start;
                contents.start_chain = chain;
                if before.id == start {
                    contents.start_header = before;
                }
            }
            contents.snapshot = snapshot.clone();
        }
        Some(start)
    }

    /// Return the state and the log that a starting process finds. All of it is then durable.
    pub(crate) fn recover(&mut self) -> (QuorumState, LogIndex) {
        let (log, recovered) = Log::open(self.files.clone(), OPTIONS).expect("no damage");
        let id = log.latest_snapshot();
        let (header, content) = snapshot_of(&log, id);
        let (start_header, start_chain) = snapshot_of(&log, log.start());
        let mut contents = Contents {
            snapshot: Snapshot { header, content },
            start: log.start(),
            start_chain,
            start_header,
            entries: Vec::new(),
        };
        while contents.end() < log.end_offset() {
            let bytes = log.read(contents.end(), log.end_offset(), 4096);
            let batches = decode_batches(&bytes.expect("a good disk")).expect("intact batches");
            for batch in &batches {
                contents.push(from_stored(batch));
            }
        }
        let (end, chain) = self.floor;
        let kept = contents.start.offset >= end || contents.chain_at(end) == Some(chain);
        assert!(
            kept,
            "what was flushed survives: {end} of {}..{}",
            contents.start.offset,
            contents.end()
        );
        self.floor = (
            contents.end(),
            contents.chain_at(contents.end()).unwrap_or(0),
        );
        self.cached = contents.clone();
        self.durable = contents;
        self.log = Some(log);
        (recovered.state, recovered.index)
    }

    fn log_mut(&mut self) -> &mut Log {
        self.log.as_mut().expect("a running process")
    }
}

/// A snapshot whose image is the hash of the log that it replaces.
fn write_snapshot(files: &SimulatedFiles, snapshot: &Snapshot<u64>) -> Result<(), LogError> {
    let mut writer = SnapshotWriter::begin(files, &snapshot.header, &[], 0)?;
    writer.append([&snapshot.content.to_be_bytes()[..]])?;
    writer.finish().map(drop)
}

/// Return a snapshot's header, and the hash that is its content. The bootstrap snapshot has no records; the hash of its
/// empty log is returned.
fn snapshot_of(log: &Log, id: EpochEnd) -> (SnapshotHeader, u64) {
    let mut reader = log.open_snapshot(id).expect("a snapshot");
    let records = reader.next_records().expect("a whole snapshot");
    let content = records.map_or(0, |records| number(&records[0]));
    (reader.header().clone(), content)
}

fn number(record: &[u8]) -> u64 {
    record
        .iter()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

fn to_stored(batch: &Batch<u64>) -> Batch<Bytes> {
    with_data(batch, |data| {
        let value = data.to_be_bytes();
        let values = (0..batch.records).map(|_| &value[..]);
        encode_records(values, 0, batch.epoch).expect("small records")
    })
}

fn from_stored(batch: &Batch<Bytes>) -> Batch<u64> {
    with_data(batch, |data| {
        let values = record_values(data).expect("intact records");
        number(&values[0])
    })
}

/// Return the batch with other data; control records are the same.
fn with_data<A, B>(batch: &Batch<A>, convert: impl FnOnce(&A) -> B) -> Batch<B> {
    let body = match &batch.body {
        Body::LeaderChange(leader) => Body::LeaderChange(*leader),
        Body::Voters(voters) => Body::Voters(voters.clone()),
        Body::TopicId(id) => Body::TopicId(*id),
        Body::Data(data) => Body::Data(convert(data)),
    };
    Batch {
        base_offset: batch.base_offset,
        records: batch.records,
        epoch: batch.epoch,
        body,
        encoded: None,
    }
}
