//! A replica's disk: the real metadata log on simulated files, and beside it what should be in the log.

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
    unsynced_bytes_max: 1000,
};

#[derive(Debug, Clone)]
enum Write {
    Append(Batch<u64>),
    Truncate(i64),
}

/// A flush that runs.
#[derive(Debug)]
struct Running {
    ticket: u64,
    flush: Flush<SimulatedFiles>,
    /// How many of the unflushed writes it covers.
    writes: usize,
}

/// A disk of a replica. The process sees its writes at once; a power cut leaves the synced ones, and of the others some.
#[derive(Debug)]
pub(crate) struct SimulatedDisk {
    /// Whose disk it is; another disk makes another replica.
    pub(crate) key: ReplicaKey,
    /// The log as the process sees it.
    pub(crate) cached: Contents,
    /// The log as of its last flush.
    pub(crate) durable: Contents,
    /// The end of the log that survives a power cut, and the hash of the log up to that end.
    floor: (i64, u64),
    files: SimulatedFiles,
    /// Of the running process.
    log: Option<Log>,
    unflushed: VecDeque<Write>,
    flushes: VecDeque<Running>,
    states: VecDeque<(u64, StateWrite<SimulatedFiles>)>,
    /// The next flush or state write fails.
    pub(crate) fails: bool,
}

impl SimulatedDisk {
    /// A formatted disk.
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

    /// Appends fail.
    pub(crate) fn set_full(&self, full: bool) {
        self.files.set_full(full);
    }

    /// The power is cut, or the process dies with writes that the system has not done.
    pub(crate) fn cut_power(&mut self, random: &mut Random) -> Damage {
        // A write of the state that was not reported may be done.
        let written = random.index(self.states.len() + 1);
        for (_, write) in self.states.drain(..).take(written) {
            // A full disk refuses it.
            let _ = write.run();
        }
        self.unflushed.clear();
        self.flushes.clear();
        self.log = None;
        self.files.cut_power(random)
    }

    /// Appends batches.
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

    /// Cuts the log off. From now on what is cut off may be lost.
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

    /// Replaces the log by a snapshot.
    pub(crate) fn install(&mut self, snapshot: Snapshot<u64>) -> Result<(), DiskError> {
        let id = snapshot.header.id;
        // The leader's file, byte by byte.
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
        // From here on either log is right.
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

    /// Up to `batches_max` batches from `from` on, below `to`.
    #[must_use]
    pub(crate) fn read(&self, from: i64, to: i64, batches_max: usize) -> Vec<Batch<u64>> {
        let log = self.log.as_ref().expect("a running process");
        let bytes = log.read(from, to, 4096).expect("a good disk");
        let batches = decode_batches(&bytes).expect("intact batches");
        batches.iter().take(batches_max).map(from_stored).collect()
    }

    /// The latest snapshot.
    #[must_use]
    pub(crate) fn snapshot(&self) -> &Snapshot<u64> {
        &self.cached.snapshot
    }

    /// Begins a flush of everything that was written so far.
    pub(crate) fn begin_flush(&mut self, ticket: u64) {
        let flush = self.log_mut().begin_flush();
        self.flushes.push_back(Running {
            ticket,
            flush,
            writes: self.unflushed.len(),
        });
    }

    /// The flush is done.
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
        // What was cut off meanwhile is not promised.
        let end = self.durable.end();
        let chain = self.durable.chain_at(end);
        if let Some(chain) = chain.filter(|_| self.cached.chain_at(end) == chain)
            && end > self.floor.0
        {
            self.floor = (end, chain);
        }
        Ok(())
    }

    /// Begins a write of the quorum state.
    pub(crate) fn begin_state(&mut self, ticket: u64, state: QuorumState) {
        let write = self.log_mut().state_write(state);
        self.states.push_back((ticket, write));
    }

    /// The write is done.
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

    /// Replaces the log up to where two generations begin by a snapshot, at once durable; returns where that is.
    pub(crate) fn write_snapshot(&mut self, header: &SnapshotHeader) -> Option<EpochEnd> {
        let content = self.cached.chain_at(header.id.offset)?;
        let snapshot = Snapshot {
            header: header.clone(),
            content,
        };
        write_snapshot(&self.files, &snapshot).ok()?;
        let start = self.log_mut().snapshot_written(header.id);
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

    /// What a process that starts finds. All of it is durable then.
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

/// The bootstrap snapshot has no records: its log is empty.
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
    let body = match &batch.body {
        Body::LeaderChange(leader) => Body::LeaderChange(*leader),
        Body::Voters(voters) => Body::Voters(voters.clone()),
        Body::TopicId(id) => Body::TopicId(*id),
        Body::Data(data) => {
            let value = data.to_be_bytes();
            let values = (0..batch.records).map(|_| &value[..]);
            Body::Data(encode_records(values, 0, batch.epoch).expect("small records"))
        }
    };
    Batch {
        base_offset: batch.base_offset,
        records: batch.records,
        epoch: batch.epoch,
        body,
        encoded: None,
    }
}

fn from_stored(batch: &Batch<Bytes>) -> Batch<u64> {
    let body = match &batch.body {
        Body::LeaderChange(leader) => Body::LeaderChange(*leader),
        Body::Voters(voters) => Body::Voters(voters.clone()),
        Body::TopicId(id) => Body::TopicId(*id),
        Body::Data(data) => {
            let values = record_values(data).expect("intact records");
            Body::Data(number(&values[0]))
        }
    };
    Batch {
        base_offset: batch.base_offset,
        records: batch.records,
        epoch: batch.epoch,
        body,
        encoded: None,
    }
}
