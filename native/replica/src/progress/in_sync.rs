//! Which replicas are in sync with their leader, and how far all of them have got. Pure: offsets and time come in.
//!
//! The set in sync (ISR) is the controller's. The leader proposes, and a proposal counts once the controller has
//! written it; until the answer is known either may be true. Therefore the high watermark takes the members of both
//! sets (KIP-497): who is to join counts from the moment it is asked for, who is to go counts until it is gone. A
//! leader that is cut off from the controller can thus never shrink its ISR and go on alone.

use std::time::{Duration, Instant};

/// A member of a proposed set, with the life of the broker that the leader has heard (KIP-903): the controller takes
/// it only if that broker still lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Broker id.
    pub broker: i32,
    /// Epoch of its registration; -1: not known, of the leader itself and of members that have not fetched yet.
    pub broker_epoch: i64,
}

/// What the leader asks of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The set as it shall be, the leader included.
    pub isr: Vec<Member>,
    /// Version of the state that it replaces: the controller refuses it if the state has moved on.
    pub version: i32,
}

/// What a leader knows of its followers.
#[derive(Debug, Clone)]
pub(super) struct InSync {
    leader: i32,
    committed: Vec<i32>,
    version: i32,
    proposed: Option<Vec<i32>>,
    followers: Vec<Follower>,
}

#[derive(Debug, Clone, Copy)]
struct Follower {
    broker: i32,
    broker_epoch: i64,
    /// Its log's end as it last claimed by its fetch offset; what is below is on its disk (in commit mode).
    end: Option<i64>,
    /// The last time at which it had all that the leader had; `None`: never in this leadership.
    caught_up: Option<Instant>,
    last_fetch: Option<Instant>,
    leader_end_at_last_fetch: i64,
    /// From where it was given records last.
    given_from: Option<i64>,
    /// When its last request came.
    last_request: Option<Instant>,
    /// Numbers of its last two requests, the later one first; 0: it has not sent them.
    requests: [u64; 2],
}

impl Follower {
    fn unheard(broker: i32) -> Self {
        Self {
            broker,
            broker_epoch: -1,
            end: None,
            caught_up: None,
            last_fetch: None,
            leader_end_at_last_fetch: i64::MAX,
            given_from: None,
            last_request: None,
            requests: [0; 2],
        }
    }
}

/// Answer to a fetch of a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Noted.
    Noted,
    /// It is no replica of the partition.
    Stranger,
    /// An earlier life of that broker: its claims are void.
    Stale,
}

impl InSync {
    /// For a leader that has heard of nobody yet. Members have `replica.lag.time.max.ms` from now on to be heard of.
    #[must_use]
    pub(super) fn new(
        leader: i32,
        replicas: &[i32],
        isr: &[i32],
        version: i32,
        now: Instant,
    ) -> Self {
        let followers = replicas
            .iter()
            .filter(|&&broker| broker != leader)
            .map(|&broker| Follower {
                caught_up: isr.contains(&broker).then_some(now),
                ..Follower::unheard(broker)
            })
            .collect();
        Self {
            leader,
            committed: isr.to_vec(),
            version,
            proposed: None,
            followers,
        }
    }

    /// A follower's fetch from `offset`, while the leader's log ends at `leader_end`.
    pub(super) fn fetched(
        &mut self,
        broker: i32,
        broker_epoch: i64,
        offset: i64,
        leader_end: i64,
        now: Instant,
    ) -> Claim {
        let Some(follower) = self
            .followers
            .iter_mut()
            .find(|known| known.broker == broker)
        else {
            return Claim::Stranger;
        };
        if broker_epoch < follower.broker_epoch {
            return Claim::Stale;
        }
        follower.broker_epoch = broker_epoch;
        if offset >= leader_end {
            follower.caught_up = follower.caught_up.max(Some(now));
        } else if offset >= follower.leader_end_at_last_fetch {
            // It has all that there was when it last asked: in sync with a leader that never rests, too.
            follower.caught_up = follower.caught_up.max(follower.last_fetch);
        }
        follower.end = Some(offset);
        follower.last_fetch = Some(now);
        follower.leader_end_at_last_fetch = leader_end;
        Claim::Noted
    }

    /// A request of a follower came at `received`: its `number` is that of the first time that it is looked at.
    pub(super) fn came(&mut self, broker: i32, received: Instant, number: u64) {
        let mut followers = self.followers.iter_mut();
        if let Some(follower) = followers.find(|known| known.broker == broker)
            && follower.last_request < Some(received)
        {
            follower.last_request = Some(received);
            follower.requests = [number, follower.requests[0]];
        }
    }

    /// Whether everybody else who is, or may be, in sync has sent a request since that of this number. Each has one
    /// request under way, and the first that comes may have waited for a leader that was paused: the second was sent
    /// afterwards.
    pub(super) fn all_came_since(&self, number: u64) -> bool {
        self.followers
            .iter()
            .filter(|follower| self.may_be_in_sync(follower.broker))
            .all(|follower| follower.requests[1] > number)
    }

    /// A follower gets records from `offset` on; whether it got them before and asks for them again.
    pub(super) fn gives(&mut self, broker: i32, offset: i64) -> bool {
        let mut followers = self.followers.iter_mut();
        let Some(follower) = followers.find(|known| known.broker == broker) else {
            return false;
        };
        follower.given_from.replace(offset) == Some(offset)
    }

    /// The end that every replica has which is, or may be, in sync; `local_end` is the leader's own (its flushed end
    /// in commit mode). `None` while one of them has not been heard of: the high watermark stays where it is.
    #[must_use]
    pub(super) fn minimum(&self, local_end: i64) -> Option<i64> {
        self.followers
            .iter()
            .filter(|follower| self.may_be_in_sync(follower.broker))
            .try_fold(local_end, |least, follower| {
                follower.end.map(|end| least.min(end))
            })
    }

    /// The member that has most, among those for which `wanted` holds and which have everything below `offset`.
    pub(super) fn most_advanced(&self, offset: i64, wanted: impl Fn(i32) -> bool) -> Option<i32> {
        let members = self.followers.iter();
        let wanted = members.filter(|known| {
            self.committed.contains(&known.broker)
                && known.end.is_some_and(|end| end >= offset)
                && wanted(known.broker)
        });
        // The first of equals, so that a consumer is not sent to and fro.
        let most = wanted.rev().max_by_key(|known| known.end);
        most.map(|known| known.broker)
    }

    /// How far a follower claims to be; `None` if it has not been heard of.
    #[must_use]
    fn end_of(&self, broker: i32) -> Option<i64> {
        self.followers
            .iter()
            .find(|follower| follower.broker == broker)?
            .end
    }

    /// Everybody who is, or may be, in sync, the leader included.
    pub(super) fn maximal(&self) -> Vec<i32> {
        let mut all = self.committed.clone();
        let proposed = self.proposed.iter().flatten().copied();
        all.extend(proposed.filter(|broker| !self.committed.contains(broker)));
        all
    }

    fn may_be_in_sync(&self, broker: i32) -> bool {
        self.committed.contains(&broker)
            || self
                .proposed
                .as_ref()
                .is_some_and(|proposed| proposed.contains(&broker))
    }

    /// Proposes to take a follower in that has just fetched, if it has all that is committed and all that older
    /// leaders wrote (`epoch_start`: where this leadership began). Nothing while another proposal is under way.
    pub(super) fn expand(
        &mut self,
        broker: i32,
        high_watermark: i64,
        epoch_start: i64,
    ) -> Option<Proposal> {
        if self.proposed.is_some() || self.committed.contains(&broker) {
            return None;
        }
        let end = self.end_of(broker)?;
        if end < high_watermark || end < epoch_start {
            return None;
        }
        let mut isr = self.committed.clone();
        isr.push(broker);
        Some(self.propose(isr))
    }

    /// Proposes to go on without a member that has just fetched from below the high watermark: it has lost what it once
    /// had, and must not be elected before it has it again. Nothing while another proposal is under way.
    pub(super) fn without_who_lost(
        &mut self,
        broker: i32,
        high_watermark: i64,
    ) -> Option<Proposal> {
        let lost = self.committed.contains(&broker)
            && self.end_of(broker).is_some_and(|end| end < high_watermark);
        if !lost || self.proposed.is_some() {
            return None;
        }
        let isr = self.committed.iter().copied();
        let isr = isr.filter(|&member| member != broker).collect();
        Some(self.propose(isr))
    }

    /// Proposes to go on without those that have been behind for longer than `lag_max`.
    pub(super) fn shrink(
        &mut self,
        leader_end: i64,
        now: Instant,
        lag_max: Duration,
    ) -> Option<Proposal> {
        if self.proposed.is_some() {
            return None;
        }
        let late = |follower: &Follower| {
            follower.end != Some(leader_end)
                && follower
                    .caught_up
                    .is_none_or(|then| now.saturating_duration_since(then) > lag_max)
        };
        let isr: Vec<i32> = self
            .committed
            .iter()
            .copied()
            .filter(|&broker| {
                broker == self.leader
                    || !self
                        .followers
                        .iter()
                        .any(|known| known.broker == broker && late(known))
            })
            .collect();
        (isr.len() < self.committed.len()).then(|| self.propose(isr))
    }

    fn propose(&mut self, isr: Vec<i32>) -> Proposal {
        let proposal = Proposal {
            isr: isr
                .iter()
                .map(|&broker| Member {
                    broker,
                    broker_epoch: self
                        .followers
                        .iter()
                        .find(|known| known.broker == broker)
                        .map_or(-1, |known| known.broker_epoch),
                })
                .collect(),
            version: self.version,
        };
        self.proposed = Some(isr);
        proposal
    }

    /// The controller's state of this leadership, as its answer to a proposal or by an order; false if it is not
    /// newer than what is known.
    pub(super) fn written(&mut self, isr: &[i32], version: i32) -> bool {
        if version <= self.version {
            return false;
        }
        self.committed = isr.to_vec();
        self.version = version;
        self.proposed = None;
        true
    }

    /// The controller has refused the proposal for `version`: it was not written and never will be. While that is not
    /// certain, it stays.
    pub(super) fn refused(&mut self, version: i32) {
        if version == self.version {
            self.proposed = None;
        }
    }

    /// The replicas that there are from now on (reassignment); what is known of those who stay is kept.
    pub(super) fn set_replicas(&mut self, replicas: &[i32]) {
        self.followers
            .retain(|known| replicas.contains(&known.broker));
        for &broker in replicas {
            if broker != self.leader && !self.followers.iter().any(|known| known.broker == broker) {
                self.followers.push(Follower::unheard(broker));
            }
        }
    }
}

#[cfg(test)]
mod tests;
