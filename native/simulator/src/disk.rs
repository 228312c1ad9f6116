//! A simulated disk that loses, tears and damages unflushed writes.

use std::collections::VecDeque;

use pybroker_quorum::{
    Batch, EpochEnd, LogIndex, QuorumState, ReplicaKey, Snapshot, SnapshotHeader, VoterSet,
};

use crate::metadata_log::{Contents, DiskError, MetadataLog};
use crate::random::Random;

#[derive(Debug, Clone)]
enum Write {
    Append(Batch<u64>),
    Truncate(i64),
    Install(Snapshot<u64>),
}

impl Contents {
    fn write(&mut self, write: Write) {
        match write {
            Write::Append(batch) => self.push(batch),
            Write::Truncate(end) => self.truncate(end),
            Write::Install(snapshot) => *self = Self::of(snapshot),
        }
    }
}

/// The damage of a power cut to unflushed writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Number of lost writes.
    pub(crate) lost: u64,
    /// Number of batches that are only half written.
    pub(crate) torn: u64,
    /// Number of batches with flipped bits.
    pub(crate) flipped: u64,
}

/// A replica's disk. The process sees its writes at once. A power cut keeps the flushed writes and a part of the
/// others, in order.
#[derive(Debug)]
pub(crate) struct SimulatedDisk {
    /// The replica that owns the disk; the same node with another disk is another replica.
    pub(crate) key: ReplicaKey,
    /// The content that the process sees.
    pub(crate) cached: Contents,
    /// The content that survives any power cut.
    pub(crate) durable: Contents,
    state: QuorumState,
    pending_states: VecDeque<(u64, QuorumState)>,
    unflushed: VecDeque<Write>,
    /// Running flushes, each with the number of unflushed writes that it covers.
    flushes: VecDeque<(u64, usize)>,
    /// The next flush or state write fails.
    pub(crate) fails: bool,
    /// Whether the disk is full: appends fail.
    pub(crate) full: bool,
}

impl SimulatedDisk {
    /// Create a formatted disk.
    #[must_use]
    pub(crate) fn new(key: ReplicaKey, voters: VoterSet) -> Self {
        let contents = Contents::formatted(voters);
        Self {
            key,
            cached: contents.clone(),
            durable: contents,
            state: QuorumState::default(),
            pending_states: VecDeque::new(),
            unflushed: VecDeque::new(),
            flushes: VecDeque::new(),
            fails: false,
            full: false,
        }
    }

    /// Cut the power, or end the process before the system has executed its writes.
    pub(crate) fn cut_power(&mut self, random: &mut Random) -> Damage {
        let mut damage = Damage::default();
        let kept = random.index(self.unflushed.len() + 1);
        damage.lost = (self.unflushed.len() - kept) as u64;
        let flip = kept > 0 && random.percent(20);
        let tear = random.percent(30);
        for (index, write) in self.unflushed.drain(..).enumerate() {
            if index > kept || (index == kept && !tear) {
                break;
            }
            let appends = matches!(write, Write::Append(_));
            if index == kept && !appends {
                break;
            }
            self.durable.write(write);
            if let Some(entry) = self.durable.entries.last_mut().filter(|_| appends) {
                if index == kept {
                    entry.checksum ^= 1;
                    damage.torn += 1;
                } else if flip && damage.flipped == 0 && random.percent(50) {
                    entry.checksum ^= 1 << random.below(64);
                    damage.flipped += 1;
                }
            }
        }
        self.flushes.clear();
        let written = random.index(self.pending_states.len() + 1);
        if let Some(&(_, state)) = written
            .checked_sub(1)
            .and_then(|last| self.pending_states.get(last))
        {
            self.state = state;
        }
        self.pending_states.clear();
        damage
    }
}

impl MetadataLog for SimulatedDisk {
    fn append(&mut self, batches: &[Batch<u64>]) -> Result<(), DiskError> {
        if self.full {
            return Err(DiskError);
        }
        for batch in batches {
            self.cached.push(batch.clone());
            self.unflushed.push_back(Write::Append(batch.clone()));
        }
        Ok(())
    }

    fn truncate(&mut self, end: i64) {
        self.cached.truncate(end);
        self.unflushed.push_back(Write::Truncate(end));
    }

    fn install(&mut self, snapshot: Snapshot<u64>) {
        self.cached = Contents::of(snapshot.clone());
        self.unflushed.push_back(Write::Install(snapshot));
    }

    fn read(&self, from: i64, to: i64, batches_max: usize) -> Vec<Batch<u64>> {
        let entries = self.cached.entries[self.cached.index_after(from)..].iter();
        let entries = entries.take_while(|entry| entry.batch.end_offset() <= to);
        entries
            .take(batches_max)
            .map(|entry| entry.batch.clone())
            .collect()
    }

    fn snapshot(&self) -> &Snapshot<u64> {
        &self.cached.snapshot
    }

    fn begin_flush(&mut self, ticket: u64) {
        self.flushes.push_back((ticket, self.unflushed.len()));
    }

    fn end_flush(&mut self, ticket: u64) -> Result<(), DiskError> {
        if std::mem::take(&mut self.fails) {
            return Err(DiskError);
        }
        let Some(&(_, count)) = self.flushes.front().filter(|flush| flush.0 == ticket) else {
            return Ok(());
        };
        self.flushes.pop_front();
        for write in self.unflushed.drain(..count) {
            self.durable.write(write);
        }
        for flush in &mut self.flushes {
            flush.1 -= count;
        }
        Ok(())
    }

    fn begin_state(&mut self, ticket: u64, state: QuorumState) {
        self.pending_states.push_back((ticket, state));
    }

    fn end_state(&mut self, ticket: u64) -> Result<(), DiskError> {
        if std::mem::take(&mut self.fails) {
            return Err(DiskError);
        }
        while let Some(&(pending, state)) = self.pending_states.front()
            && pending <= ticket
        {
            self.state = state;
            self.pending_states.pop_front();
        }
        Ok(())
    }

    fn write_snapshot(&mut self, header: &SnapshotHeader, start: EpochEnd) {
        for contents in [&mut self.cached, &mut self.durable] {
            let Some(content) = contents.chain_at(header.id.offset) else {
                continue;
            };
            let before = contents.snapshot.header.clone();
            contents.snapshot = Snapshot {
                header: header.clone(),
                content,
            };
            let start_header = match start == header.id {
                true => header.clone(),
                false => before,
            };
            if let Some(chain) = contents.chain_at(start.offset) {
                contents.entries.drain(..contents.index_after(start.offset));
                contents.start = start;
                contents.start_chain = chain;
                contents.start_header = start_header;
            }
        }
    }

    fn recover(&mut self) -> (QuorumState, LogIndex) {
        // The scan stops at the first damaged batch.
        let intact = self
            .durable
            .entries
            .iter()
            .take_while(|entry| entry.is_intact())
            .count();
        self.durable.entries.truncate(intact);
        self.cached = self.durable.clone();
        (self.state, self.cached.index())
    }
}
