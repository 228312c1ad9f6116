//! Invariants of all replicas together. The oracle sees all replicas at once and remembers their state across crashes.

use std::collections::HashMap;
use std::fmt;

use pybroker_model::Uuid;
use pybroker_quorum::{Body, ReplicaKey, Transition};

use crate::coverage::TRANSITIONS;
use crate::metadata_log::{Contents, Entry};

/// A broken invariant.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// The observed state.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.seen)
    }
}

/// Return a violation unless the condition holds.
macro_rules! require {
    ($holds:expr, $invariant:literal, $($seen:tt)+) => {
        if !$holds {
            return Err($crate::oracle::Violation {
                invariant: $invariant,
                seen: format!($($seen)+),
            });
        }
    };
}
pub(crate) use require;

/// A batch that some replica knows to be committed.
#[derive(Debug, Clone, Copy)]
struct CommittedBatch {
    end: i64,
    chain: u64,
    /// Epoch of the leader that committed it.
    leader_epoch: i32,
    data: Option<u64>,
}

/// The oracle's memory of a run.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    leaders: HashMap<i32, ReplicaKey>,
    votes: HashMap<(ReplicaKey, i32), ReplicaKey>,
    /// Hash of the log up to a batch, by the batch's end offset and epoch.
    chains: HashMap<(i64, i32), u64>,
    committed: Vec<CommittedBatch>,
    topic_id: Option<Uuid>,
    /// The highest epoch that each replica has sent.
    spoken: HashMap<ReplicaKey, i32>,
    voters: Option<pybroker_quorum::VoterSet>,
}

type Verdict = Result<(), Violation>;

impl Oracle {
    /// Return the end of the committed log.
    #[must_use]
    pub(crate) fn committed_end(&self) -> i64 {
        self.committed.last().map_or(0, |batch| batch.end)
    }

    /// Check a change of a role.
    ///
    /// # Errors
    /// If the state machine has no such transition.
    pub(crate) fn moved(&self, transition: Transition) -> Verdict {
        require!(
            TRANSITIONS.contains(&transition),
            "the table of transitions",
            "{transition:?}"
        );
        Ok(())
    }

    /// Check the leader of an epoch.
    ///
    /// # Errors
    /// If another replica led it, or its log lacks records that earlier leaders committed.
    pub(crate) fn leads(&mut self, key: ReplicaKey, epoch: i32, log: &Contents) -> Verdict {
        let leader = *self.leaders.entry(epoch).or_insert(key);
        require!(
            leader == key,
            "one leader an epoch",
            "epoch {epoch}: {leader:?} and {key:?}"
        );
        let before = self
            .committed
            .partition_point(|batch| batch.leader_epoch < epoch);
        if let Some(last) = before
            .checked_sub(1)
            .and_then(|index| self.committed.get(index))
        {
            let has = last.end <= log.start.offset || log.chain_at(last.end) == Some(last.chain);
            let end = last.end;
            require!(
                has,
                "a leader has all that is committed",
                "{key:?}, epoch {epoch}, lacks {end}"
            );
        }
        Ok(())
    }

    /// Check a vote.
    ///
    /// # Errors
    /// If the replica voted for another candidate in that epoch.
    pub(crate) fn votes(
        &mut self,
        voter: ReplicaKey,
        epoch: i32,
        candidate: ReplicaKey,
    ) -> Verdict {
        let first = *self.votes.entry((voter, epoch)).or_insert(candidate);
        require!(
            first == candidate,
            "a voter votes once an epoch",
            "{voter:?} in epoch {epoch}: for {first:?} and {candidate:?}"
        );
        Ok(())
    }

    /// Record the epoch that a replica sends.
    pub(crate) fn speaks(&mut self, key: ReplicaKey, epoch: i32) {
        let spoken = self.spoken.entry(key).or_default();
        *spoken = epoch.max(*spoken);
    }

    /// Check the content of the disk when a process starts.
    ///
    /// # Errors
    ///
    /// If the content contradicts earlier messages of the replica, or the committed log.
    pub(crate) fn starts(&self, key: ReplicaKey, epoch: i32, log: &Contents) -> Verdict {
        let spoken = self.spoken.get(&key).copied().unwrap_or(0);
        require!(
            epoch >= spoken,
            "epochs survive a crash",
            "{key:?}: {epoch} after {spoken}"
        );
        let snapshot = &log.snapshot;
        self.has_committed(key, snapshot.header.id.offset, snapshot.content)
    }

    /// Check a replica's committed log, which has this end and hash.
    ///
    /// # Errors
    ///
    /// If it differs from the committed log that the oracle knows.
    pub(crate) fn has_committed(&self, key: ReplicaKey, end: i64, chain: u64) -> Verdict {
        let known = self.committed.binary_search_by_key(&end, |batch| batch.end);
        let same = known.is_ok_and(|index| self.committed[index].chain == chain) || end == 0;
        require!(
            same,
            "the committed prefix never changes",
            "{key:?} has another log up to {end}"
        );
        Ok(())
    }

    /// Check an appended batch.
    ///
    /// # Errors
    /// If another log has a batch of this epoch here and differs before it.
    pub(crate) fn appends(&mut self, key: ReplicaKey, entry: &Entry) -> Verdict {
        let (end, epoch) = (entry.batch.end_offset(), entry.batch.epoch);
        let chain = *self.chains.entry((end, epoch)).or_insert(entry.chain);
        require!(
            chain == entry.chain,
            "logs match",
            "{key:?} at {end}, epoch {epoch}"
        );
        Ok(())
    }

    /// Check a batch that a replica appends after a batch of the epoch `before`.
    ///
    /// # Errors
    /// If an epoch does not begin with its leader's record.
    pub(crate) fn begins_epoch(entry: &Entry, before: i32) -> Verdict {
        let begins = entry.batch.epoch > before;
        let names_leader = matches!(entry.batch.body, Body::LeaderChange(_));
        require!(
            !begins || names_leader,
            "an epoch begins with its leader",
            "{:?}",
            entry.batch
        );
        Ok(())
    }

    /// Check a batch that a replica considers committed in an epoch.
    ///
    /// # Errors
    /// If another batch is committed at that offset.
    pub(crate) fn commits(&mut self, key: ReplicaKey, epoch: i32, entry: &Entry) -> Verdict {
        let end = entry.batch.end_offset();
        if end <= self.committed_end() {
            return self.has_committed(key, end, entry.chain);
        }
        let begins_there = entry.batch.base_offset == self.committed_end();
        require!(
            begins_there,
            "the committed prefix never changes",
            "{key:?} commits a part of {end}"
        );
        let data = match &entry.batch.body {
            Body::Data(data) => Some(*data),
            Body::TopicId(id) => {
                let known = *self.topic_id.get_or_insert(*id);
                require!(
                    known == *id,
                    "a topic id never changes",
                    "{key:?}: {known}, then {id}"
                );
                None
            }
            Body::Voters(voters) => {
                if let Some(before) = self.voters.replace(voters.clone()) {
                    let added = voters
                        .iter()
                        .filter(|voter| !before.contains(*voter))
                        .count();
                    let removed = before
                        .iter()
                        .filter(|voter| !voters.contains(*voter))
                        .count();
                    let one = added + removed <= 1;
                    require!(
                        one,
                        "one voter changes at a time",
                        "{before:?}, then {voters:?}"
                    );
                }
                None
            }
            Body::LeaderChange(_) => None,
        };
        self.committed.push(CommittedBatch {
            end,
            chain: entry.chain,
            leader_epoch: epoch,
            data,
        });
        Ok(())
    }

    /// Check the confirmation that a proposal is committed up to `end`.
    ///
    /// # Errors
    /// If the proposal is not committed.
    pub(crate) fn confirms(&self, proposal: u64, is_data: bool, end: i64) -> Verdict {
        let known = self.committed.binary_search_by_key(&end, |batch| batch.end);
        let committed = known.ok().map(|index| self.committed[index]);
        let same = committed.is_some_and(|batch| !is_data || batch.data == Some(proposal));
        require!(
            same,
            "what is confirmed is committed",
            "proposal {proposal} at {end}: {committed:?}"
        );
        Ok(())
    }

    /// Check the topic id that a replica knows.
    ///
    /// # Errors
    /// If another topic id is committed.
    pub(crate) fn knows_topic_id(&self, key: ReplicaKey, id: Option<Uuid>) -> Verdict {
        let same = id.is_none() || id == self.topic_id;
        let committed = self.topic_id;
        require!(
            same,
            "a topic id never changes",
            "{key:?} knows {id:?}, committed is {committed:?}"
        );
        Ok(())
    }
}
