//! Delegated offset commits: after answering a member's OffsetCommit, the control plane can delegate the member's next
//! commits on that connection to the data threads, until it revokes the delegation ([`CommitLease`]). A regular commit
//! then bypasses the queue and Python.
//!
//! A delegation covers requests in which only the offsets have changed: version, group, generation, member and instance
//! are identical byte by byte, the topics were approved by the control plane, and partitions, leader epochs and
//! metadata are within the given bounds. Each request is authorized again. The control plane answers all other
//! requests.
//!
//! Revocation works like the invalidation of cached responses (`cached_responses`). Each commit is checked and appended
//! under the gate of its shard ([`ShardCommits`]). The control plane revokes a delegation and then passes the gate.
//! After that, every commit under the delegation is in the log, ahead of the control plane's own next write, and no
//! more will follow.
//!
//! The shard keeps the latest delegated commit of each partition until the control plane takes them over, which it does
//! before it reads the shard's offsets. It can also query commits that are not on disk yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;
use pybroker_model::{BatchBuilder, Codec, TopicId, TopicIdPartition, ValidBatches};
use pybroker_protocol::hot::offset_commit::{self, OffsetCommitRequest, OffsetCommitTopic};
use pybroker_protocol::hot::stored_offset::StoredOffset;
use pybroker_protocol::primitives::DecodeError;
use pybroker_replica::{HeldFlushes, Partition, PartitionError};
use pybroker_storage::AppendOrigin;
use tokio::sync::oneshot;

use crate::leases::cached_responses::{CachedResponses, Lease};

/// Maximum delegations per connection; a client usually has one connection per member.
const LEASES_MAX: usize = 4;

/// One committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberCommit {
    /// Group id.
    pub group: Arc<str>,
    /// Topic id.
    pub topic_id: TopicId,
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition index.
    pub partition: i32,
    /// Committed offset.
    pub offset: i64,
    /// Leader epoch of the last consumed record; −1 if unknown.
    pub leader_epoch: i32,
    /// Metadata of the commit.
    pub metadata: Box<str>,
    /// Commit time, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// Offset of the commit's record in the log. Until it is known, the record's position in its batch.
    pub log_offset: i64,
}

/// Delegated commits of one partition of the offsets topic, led by this broker in one leader epoch.
#[derive(Debug)]
pub struct ShardCommits {
    tip: TopicIdPartition,
    leader_epoch: i32,
    gate: Mutex<Gate>,
    /// Not held during an append, because an append wakes waiters.
    offsets: Mutex<ShardOffsets>,
}

/// State whose lock is held while a commit is checked and appended.
#[derive(Debug, Default)]
struct Gate {
    /// Number of revocations of all delegations.
    generation: u64,
    closed: bool,
}

#[derive(Debug, Default)]
struct ShardOffsets {
    batches: u64,
    /// Commits being appended, or waiting for the disk or for replicas.
    in_flight: HashMap<u64, InFlight>,
    /// Committed offsets that the control plane has not taken over yet.
    done: HashMap<(Arc<str>, TopicId, i32), MemberCommit>,
    /// Number of offsets committed since the last query.
    count: u64,
}

/// One batch of commits that is not on disk yet.
#[derive(Debug, Default)]
struct InFlight {
    commits: Vec<MemberCommit>,
    /// Whether a topic of the batch was deleted meanwhile. The topic's deletion record may lack the commit.
    topic_deleted: bool,
}

impl ShardCommits {
    /// Create a shard without commits.
    pub fn new(tip: TopicIdPartition, leader_epoch: i32) -> Self {
        ShardCommits {
            tip,
            leader_epoch,
            gate: Mutex::default(),
            offsets: Mutex::default(),
        }
    }

    /// Revoke all delegations. When this returns, all commits under them are in the log.
    pub fn revoke_all(&self) {
        self.gate.lock().generation += 1;
    }

    /// Revoke all delegations. Later ones are invalid from the start.
    pub fn close(&self) {
        self.gate.lock().closed = true;
    }

    /// Wait for commits in progress under revoked delegations.
    pub fn pass(&self) {
        drop(self.gate.lock());
    }

    /// Take over the latest commit of each partition.
    pub fn take(&self) -> Vec<MemberCommit> {
        let mut offsets = self.offsets.lock();
        offsets.done.drain().map(|(_, commit)| commit).collect()
    }

    /// Return how many offsets were committed since the last call.
    pub fn take_count(&self) -> u64 {
        std::mem::take(&mut self.offsets.lock().count)
    }

    /// Return the commits that are not on disk yet.
    pub fn in_flight(&self) -> Vec<MemberCommit> {
        let offsets = self.offsets.lock();
        let commits = offsets.in_flight.values().flat_map(|batch| &batch.commits);
        commits.cloned().collect()
    }

    /// Drop the commits of a deleted group, including those in flight.
    pub fn drop_group(&self, group: &str) {
        self.offsets.lock().retain(|commit| *commit.group != *group);
    }

    /// Drop the commits of a deleted topic, including those in flight, which fail.
    pub fn drop_topic(&self, topic_id: TopicId) {
        let mut offsets = self.offsets.lock();
        for batch in offsets.in_flight.values_mut() {
            let mut commits = batch.commits.iter();
            batch.topic_deleted |= commits.any(|commit| commit.topic_id == topic_id);
        }
        offsets.retain(|commit| commit.topic_id != topic_id);
    }

    fn began(&self, commits: Vec<MemberCommit>) -> u64 {
        let mut offsets = self.offsets.lock();
        offsets.batches += 1;
        let batch = offsets.batches;
        let commits = InFlight {
            commits,
            topic_deleted: false,
        };
        offsets.in_flight.insert(batch, commits);
        batch
    }

    /// Record that a batch is committed; its first record is at `base_offset`.
    ///
    /// # Errors
    ///
    /// `Deleted` if a topic of the batch was deleted meanwhile. The commits of its other topics count.
    fn ended(&self, batch: u64, base_offset: i64) -> Result<(), PartitionError> {
        let mut offsets = self.offsets.lock();
        let InFlight {
            commits,
            topic_deleted,
        } = offsets.in_flight.remove(&batch).unwrap_or_default();
        offsets.count += commits.len() as u64;
        for mut commit in commits {
            commit.log_offset += base_offset;
            let key = (Arc::clone(&commit.group), commit.topic_id, commit.partition);
            match offsets.done.entry(key) {
                // The record with the higher offset wins, in whatever order the batches complete.
                Entry::Occupied(known) if known.get().log_offset > commit.log_offset => {}
                entry => {
                    entry.insert(commit);
                }
            }
        }
        if topic_deleted {
            return Err(PartitionError::Deleted);
        }
        Ok(())
    }

    fn failed(&self, batch: u64) {
        self.offsets.lock().in_flight.remove(&batch);
    }
}

impl ShardOffsets {
    fn retain(&mut self, keep: impl Fn(&MemberCommit) -> bool) {
        self.done.retain(|_, commit| keep(commit));
        for batch in self.in_flight.values_mut() {
            batch.commits.retain(&keep);
        }
    }
}

/// A topic for which a member may commit offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitTopic {
    /// Topic id.
    pub topic_id: TopicId,
    /// Topic name.
    pub name: Arc<str>,
    /// Number of partitions.
    pub partitions: i32,
    /// First leader epoch of this incarnation.
    pub first_epoch: i32,
}

/// Bounds of a delegation.
#[derive(Debug)]
pub struct CommitBounds {
    /// Topics that the member may commit.
    pub topics: Vec<CommitTopic>,
    /// `offset.metadata.max.bytes`
    pub metadata_bytes_max: usize,
    /// `offsets.commit.timeout.ms`
    pub timeout: Duration,
}

/// A delegation of one member's commits.
#[derive(Debug)]
pub struct CommitLease {
    lease: Lease,
    shard: Arc<ShardCommits>,
    shard_generation: u64,
    api_version: i16,
    /// Start of the request body, which identifies the member.
    head: Bytes,
    group: Arc<str>,
    bounds: CommitBounds,
}

/// Result of commits under a delegation.
pub(crate) enum CommitOutcome {
    /// Nothing was appended: the control plane must answer.
    Declined,
    /// The offsets are committed.
    Committed,
    /// The offsets are committed once this succeeds.
    Pending(oneshot::Receiver<Result<(), PartitionError>>),
}

impl CommitLease {
    /// Delegate the commits of the member that sent this request. `before` is an earlier delegation of the member; its
    /// topics are included if it is still valid. Return `None` if the version cannot be delegated.
    ///
    /// # Errors
    ///
    /// If `body` is not an OffsetCommit of that version.
    pub fn grant(
        all: &CachedResponses,
        shard: &Arc<ShardCommits>,
        (api_version, body): (i16, &[u8]),
        bounds: CommitBounds,
        before: Option<&CommitLease>,
        now: Instant,
    ) -> Result<Option<Arc<Self>>, DecodeError> {
        if !offset_commit::VERSIONS.contains(&api_version) {
            return Ok(None);
        }
        let (request, head) = OffsetCommitRequest::decode_with_head(body, api_version)?;
        let mut lease = CommitLease {
            lease: Lease::new(all, now),
            shard: Arc::clone(shard),
            shard_generation: shard.gate.lock().generation,
            api_version,
            head: Bytes::copy_from_slice(&body[..head]),
            group: request.group_id.into(),
            bounds,
        };
        for topic in before
            .filter(|before| before.is_of(&lease) && before.is_valid())
            .map_or(&[][..], |before| &before.bounds.topics[..])
        {
            let topics = &mut lease.bounds.topics;
            if topics.iter().all(|known| known.topic_id != topic.topic_id) {
                topics.push(topic.clone());
            }
        }
        Ok(Some(Arc::new(lease)))
    }

    /// Revoke the delegation. When this returns, commits under it have ended and are in the log.
    pub fn revoke(&self) {
        self.lease.revoke();
        self.shard.pass();
    }

    /// Return the time since the last commit under the delegation.
    pub fn idle(&self, now: Instant) -> Duration {
        self.lease.idle(now)
    }

    /// Return the partition of the offsets topic.
    pub(crate) fn tip(&self) -> TopicIdPartition {
        self.shard.tip
    }

    /// Return the group id.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Return the timeout of a commit.
    pub(crate) fn timeout(&self) -> Duration {
        self.bounds.timeout
    }

    fn is_of(&self, other: &CommitLease) -> bool {
        self.api_version == other.api_version
            && self.head == other.head
            && Arc::ptr_eq(&self.shard, &other.shard)
    }

    fn is_valid(&self) -> bool {
        self.lease.is_valid() && self.shard.gate.lock().generation == self.shard_generation
    }

    /// Return the commits of a request of this member, if all are within the bounds.
    pub(crate) fn commits(
        &self,
        request: &OffsetCommitRequest<'_>,
        now_ms: i64,
    ) -> Option<Vec<MemberCommit>> {
        let mut commits = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let known = self.topic(topic)?;
            for one in &topic.partitions {
                let metadata = one.committed_metadata.unwrap_or_default();
                let by_name = self.api_version < offset_commit::BY_ID;
                let epoch = one.committed_leader_epoch;
                if !(0..known.partitions).contains(&one.partition_index)
                    || metadata.len() > self.bounds.metadata_bytes_max
                    || (by_name && (0..known.first_epoch).contains(&epoch))
                {
                    return None;
                }
                commits.push(MemberCommit {
                    group: Arc::clone(&self.group),
                    topic_id: known.topic_id,
                    topic: Arc::clone(&known.name),
                    partition: one.partition_index,
                    offset: one.committed_offset,
                    leader_epoch: epoch,
                    metadata: metadata.into(),
                    timestamp_ms: now_ms,
                    log_offset: commits.len() as i64,
                });
            }
        }
        (!commits.is_empty()).then_some(commits)
    }

    fn topic(&self, topic: &OffsetCommitTopic<'_>) -> Option<&CommitTopic> {
        let by_id = self.api_version >= offset_commit::BY_ID;
        self.bounds.topics.iter().find(|known| {
            if by_id {
                known.topic_id.uuid() == topic.topic_id
            } else {
                *known.name == *topic.name
            }
        })
    }

    /// Append commits if the delegation is valid; this counts as a heartbeat of the member.
    pub(crate) fn append(
        &self,
        partition: &Partition,
        commits: Vec<MemberCommit>,
        (now, now_ms): (Instant, i64),
        held: &mut HeldFlushes,
    ) -> CommitOutcome {
        let Some(records) = batch_of(&commits) else {
            return CommitOutcome::Declined;
        };
        let gate = self.shard.gate.lock();
        if gate.closed || gate.generation != self.shard_generation || !self.lease.record_use(now) {
            return CommitOutcome::Declined;
        }
        let batch = self.shard.began(commits);
        let (origin, epoch) = (AppendOrigin::Coordinator, self.shard.leader_epoch);
        let appended = partition.append_with(origin, epoch, records, -1, now_ms, held);
        drop(gate);
        let Ok(info) = appended else {
            self.shard.failed(batch);
            return CommitOutcome::Declined;
        };
        let (sender, outcome) = oneshot::channel();
        let shard = Arc::clone(&self.shard);
        let ended = move |outcome: Result<(), PartitionError>| match outcome {
            Ok(()) => shard.ended(batch, info.base_offset),
            Err(error) => {
                shard.failed(batch);
                Err(error)
            }
        };
        let completed = ended.clone();
        let known = partition.committed(&info).tell(move |outcome| {
            // The connection may have closed in the meantime.
            drop(sender.send(completed(outcome)));
        });
        match known {
            Some(result) => {
                match ended(result) {
                    Ok(()) => CommitOutcome::Committed,
                    // The record is in the log, and the next leader may commit it. If the client then commits again, no
                    // harm is done.
                    Err(_) => CommitOutcome::Declined,
                }
            }
            None => CommitOutcome::Pending(outcome),
        }
    }
}

/// Return the batch of the commits, in their order; `None` if it would be too large.
fn batch_of(commits: &[MemberCommit]) -> Option<ValidBatches<'static>> {
    let mut builder = BatchBuilder::new(Codec::None);
    let (mut key, mut value) = (Vec::with_capacity(96), Vec::with_capacity(64));
    for commit in commits {
        let stored = StoredOffset {
            group: &commit.group,
            topic: &commit.topic,
            partition: commit.partition,
            offset: commit.offset,
            leader_epoch: commit.leader_epoch,
            metadata: &commit.metadata,
            commit_timestamp: commit.timestamp_ms,
            expire_timestamp: None,
            topic_id: commit.topic_id.uuid(),
        };
        key.clear();
        value.clear();
        stored.encode_key(&mut key);
        stored.encode_value(&mut value);
        builder.push(commit.timestamp_ms, Some(&key[..]), Some(&value[..]));
    }
    ValidBatches::checked_owned(builder.finish().ok()?).ok()
}

/// The delegations of one connection.
#[derive(Debug, Default)]
pub(crate) struct CommitLeases(Vec<Arc<CommitLease>>);

impl CommitLeases {
    /// Add a delegation. If there are too many, remove a revoked one, or else the oldest.
    pub(crate) fn insert(&mut self, lease: Arc<CommitLease>) {
        self.0
            .retain(|known| !known.is_of(&lease) && known.is_valid());
        if self.0.len() == LEASES_MAX {
            self.0.remove(0);
        }
        self.0.push(lease);
    }

    /// Return the delegation that matches an OffsetCommit, without checking its validity.
    #[inline]
    pub(crate) fn find(&self, api_version: i16, body: &[u8]) -> Option<&Arc<CommitLease>> {
        self.0
            .iter()
            .find(|lease| lease.api_version == api_version && body.starts_with(&lease.head))
    }
}

#[cfg(test)]
mod tests;
