//! Commits that stand: the control plane has answered a member's OffsetCommit, and lets the data threads take the
//! member's next ones over that connection themselves, until it takes that back ([`CommitRight`]). A commit of a member
//! that reads what it is assigned then costs neither a queue nor Python.
//!
//! Such a right is for what nothing but the offsets has changed in: the same version, group, generation, member and
//! instance, byte for byte, topics that the control plane has found to be the member's to commit for, and partitions,
//! leader epochs and metadata within the bounds that it has named. Whoever commits is authorized each time. Anything else
//! is the control plane's to answer.
//!
//! A right is taken back as a standing answer is (`standing`). Each commit is looked at and appended under the gate of its
//! shard ([`ShardCommits`]): who takes a right back and passes the gate then knows that everything that was committed
//! under it is in the log, before whatever he writes next, and that no more comes.
//!
//! What is committed so is kept here, the latest of each partition, until the control plane takes it over: before it looks
//! at the offsets of the shard, that is. What is on its way to disk it can ask for.

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

use crate::standing::{StandingAnswers, Stands};

/// Rights that one connection keeps: a client has a connection for each of its members, as a rule.
const KEPT_MAX: usize = 4;

/// One committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberCommit {
    /// Whose.
    pub group: Arc<str>,
    /// Of which incarnation.
    pub topic_id: TopicId,
    /// Its name.
    pub topic: Arc<str>,
    /// Partition index.
    pub partition: i32,
    /// Where the group goes on.
    pub offset: i64,
    /// −1: not known.
    pub leader_epoch: i32,
    /// The client's own words.
    pub metadata: Box<str>,
    /// When it was committed, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Where its record lies; until that is known, its place in its batch.
    pub log_offset: i64,
}

/// The commits of one partition of the offsets topic that data threads take, as it is led here under one leader epoch.
#[derive(Debug)]
pub struct ShardCommits {
    tip: TopicIdPartition,
    leader_epoch: i32,
    gate: Mutex<Gate>,
    /// Never held while something is appended, as that wakes those who wait.
    noted: Mutex<Noted>,
}

/// Held while a commit is looked at and appended.
#[derive(Debug, Default)]
struct Gate {
    /// How often all rights were taken back.
    age: u64,
    closed: bool,
}

#[derive(Debug, Default)]
struct Noted {
    batches: u64,
    /// What is being appended, or waits for the disk or for replicas.
    in_flight: HashMap<u64, Vec<MemberCommit>>,
    /// What is committed and was not taken over.
    done: HashMap<(Arc<str>, TopicId, i32), MemberCommit>,
    /// How many offsets were committed since that was asked last.
    count: u64,
}

impl ShardCommits {
    /// Nothing is committed yet.
    pub fn new(tip: TopicIdPartition, leader_epoch: i32) -> Self {
        ShardCommits {
            tip,
            leader_epoch,
            gate: Mutex::default(),
            noted: Mutex::default(),
        }
    }

    /// No right that was given before stands any more, and what was committed under them is in the log.
    pub fn take_all_back(&self) {
        self.gate.lock().age += 1;
    }

    /// The same; nor does one that is given later.
    pub fn close(&self) {
        self.gate.lock().closed = true;
    }

    /// Waits until nobody is in the middle of a commit under a right that does not stand any more.
    pub fn pass(&self) {
        drop(self.gate.lock());
    }

    /// The latest commits of partitions, each once.
    pub fn take(&self) -> Vec<MemberCommit> {
        let mut noted = self.noted.lock();
        noted.done.drain().map(|(_, commit)| commit).collect()
    }

    /// How many offsets were committed since this was asked last.
    pub fn take_count(&self) -> u64 {
        std::mem::take(&mut self.noted.lock().count)
    }

    /// Commits that are on their way to disk.
    pub fn in_flight(&self) -> Vec<MemberCommit> {
        let noted = self.noted.lock();
        noted.in_flight.values().flatten().cloned().collect()
    }

    /// The group is gone, and with it what it has committed, also what is still on its way.
    pub fn drop_group(&self, group: &str) {
        self.noted.lock().retain(|commit| *commit.group != *group);
    }

    /// The same for a topic.
    pub fn drop_topic(&self, topic_id: TopicId) {
        self.noted
            .lock()
            .retain(|commit| commit.topic_id != topic_id);
    }

    fn began(&self, commits: Vec<MemberCommit>) -> u64 {
        let mut noted = self.noted.lock();
        noted.batches += 1;
        let batch = noted.batches;
        noted.in_flight.insert(batch, commits);
        batch
    }

    /// A batch is committed; its first record lies at `base_offset`.
    fn ended(&self, batch: u64, base_offset: i64) {
        let mut noted = self.noted.lock();
        let commits = noted.in_flight.remove(&batch).unwrap_or_default();
        noted.count += commits.len() as u64;
        for mut commit in commits {
            commit.log_offset += base_offset;
            let key = (Arc::clone(&commit.group), commit.topic_id, commit.partition);
            match noted.done.entry(key) {
                // Of two commits the later record counts, in whatever order they end.
                Entry::Occupied(known) if known.get().log_offset > commit.log_offset => {}
                entry => {
                    entry.insert(commit);
                }
            }
        }
    }

    fn failed(&self, batch: u64) {
        self.noted.lock().in_flight.remove(&batch);
    }
}

impl Noted {
    fn retain(&mut self, keep: impl Fn(&MemberCommit) -> bool) {
        self.done.retain(|_, commit| keep(commit));
        for commits in self.in_flight.values_mut() {
            commits.retain(&keep);
        }
    }
}

/// A topic that a member may commit for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitTopic {
    /// Its id.
    pub topic_id: TopicId,
    /// Its name.
    pub name: Arc<str>,
    /// How many partitions it has.
    pub partitions: i32,
    /// From this leader epoch on all are of this incarnation.
    pub first_epoch: i32,
}

/// What a right is given for.
#[derive(Debug)]
pub struct CommitBounds {
    /// The topics.
    pub topics: Vec<CommitTopic>,
    /// `offset.metadata.max.bytes`
    pub metadata_bytes_max: usize,
    /// `offsets.commit.timeout.ms`
    pub timeout: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct CommitRight {
    stands: Stands,
    shard: Arc<ShardCommits>,
    shard_age: u64,
    api_version: i16,
    /// How the body of each such request begins: who commits.
    head: Bytes,
    group: Arc<str>,
    bounds: CommitBounds,
}

/// What became of commits under a right.
pub(crate) enum Committed {
    /// Nothing was appended: the control plane is to be asked.
    NotHere,
    /// They are committed.
    Now,
    /// They are when this says so.
    Later(oneshot::Receiver<Result<(), PartitionError>>),
}

impl CommitRight {
    /// A right that stands from now on, for who has sent this request. `before`: one of the same member, whose topics it
    /// has as well if that still stands. `None`: the control plane answers all requests of this version.
    ///
    /// # Errors
    /// `body` is no OffsetCommit of that version.
    pub fn give(
        all: &StandingAnswers,
        shard: &Arc<ShardCommits>,
        (api_version, body): (i16, &[u8]),
        bounds: CommitBounds,
        before: Option<&CommitRight>,
        now: Instant,
    ) -> Result<Option<Arc<Self>>, DecodeError> {
        if !offset_commit::VERSIONS.contains(&api_version) {
            return Ok(None);
        }
        let (request, head) = OffsetCommitRequest::decode_with_head(body, api_version)?;
        let mut right = CommitRight {
            stands: Stands::new(all, now),
            shard: Arc::clone(shard),
            shard_age: shard.gate.lock().age,
            api_version,
            head: Bytes::copy_from_slice(&body[..head]),
            group: request.group_id.into(),
            bounds,
        };
        for topic in before
            .filter(|before| before.is_of(&right) && before.holds())
            .map_or(&[][..], |before| &before.bounds.topics[..])
        {
            let topics = &mut right.bounds.topics;
            if topics.iter().all(|known| known.topic_id != topic.topic_id) {
                topics.push(topic.clone());
            }
        }
        Ok(Some(Arc::new(right)))
    }

    /// Nobody commits under it any more when this returns, and what was committed is in the log.
    pub fn take_back(&self) {
        self.stands.take_back();
        self.shard.pass();
    }

    /// For how long nobody has committed under it.
    pub fn silent(&self, now: Instant) -> Duration {
        self.stands.silent(now)
    }

    /// Where the commits go.
    pub(crate) fn tip(&self) -> TopicIdPartition {
        self.shard.tip
    }

    /// Whose offsets.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// How long a commit may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.bounds.timeout
    }

    fn is_of(&self, other: &CommitRight) -> bool {
        self.api_version == other.api_version
            && self.head == other.head
            && Arc::ptr_eq(&self.shard, &other.shard)
    }

    fn holds(&self) -> bool {
        self.stands.holds() && self.shard.gate.lock().age == self.shard_age
    }

    /// What a request of this member commits, if all of it is within the bounds.
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

    /// Appends commits, if the right still stands; then the member counts as heard.
    pub(crate) fn append(
        &self,
        partition: &Partition,
        commits: Vec<MemberCommit>,
        (now, now_ms): (Instant, i64),
        held: &mut HeldFlushes,
    ) -> Committed {
        let Some(records) = batch_of(&commits) else {
            return Committed::NotHere;
        };
        let gate = self.shard.gate.lock();
        if gate.closed || gate.age != self.shard_age || !self.stands.again(now) {
            return Committed::NotHere;
        }
        let batch = self.shard.began(commits);
        let (origin, epoch) = (AppendOrigin::Coordinator, self.shard.leader_epoch);
        let appended = partition.append_with(origin, epoch, records, -1, now_ms, held);
        drop(gate);
        let Ok(info) = appended else {
            self.shard.failed(batch);
            return Committed::NotHere;
        };
        let (sender, outcome) = oneshot::channel();
        let shard = Arc::clone(&self.shard);
        let ended = move |outcome: &Result<(), PartitionError>| match outcome {
            Ok(()) => shard.ended(batch, info.base_offset),
            Err(_) => shard.failed(batch),
        };
        let told = ended.clone();
        let decided = partition.committed(&info).tell(move |outcome| {
            told(&outcome);
            // The connection may have gone meanwhile.
            drop(sender.send(outcome));
        });
        match decided {
            Some(decided) => {
                ended(&decided);
                match decided {
                    Ok(()) => Committed::Now,
                    // It is in the log, and may be committed by the next leader; to commit it again does no harm.
                    Err(_) => Committed::NotHere,
                }
            }
            None => Committed::Later(outcome),
        }
    }
}

/// The batch of commits, in their order. `None`: it would be too large.
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

/// The rights of one connection.
#[derive(Debug, Default)]
pub(crate) struct Rights(Vec<Arc<CommitRight>>);

impl Rights {
    /// Keeps one more; what was taken back goes, else what came first.
    pub(crate) fn keep(&mut self, right: Arc<CommitRight>) {
        self.0.retain(|one| !one.is_of(&right) && one.holds());
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push(right);
    }

    /// The right of who has sent an OffsetCommit, if there is one; whether it stands is not looked at.
    #[inline]
    pub(crate) fn find(&self, api_version: i16, body: &[u8]) -> Option<&Arc<CommitRight>> {
        self.0
            .iter()
            .find(|one| one.api_version == api_version && body.starts_with(&one.head))
    }
}

#[cfg(test)]
mod tests;
