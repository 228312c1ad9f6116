//! In-sync replicas of a leader, and the log end that all of them have reached. Without I/O: the caller passes offsets
//! and the time.
//!
//! The controller owns the ISR. The leader proposes changes, and a proposal counts once the controller has written it.
//! Until the response arrives, the leader does not know which of the two sets is valid. So a record is committed only
//! when the members of both sets have it (KIP-497): a joining replica counts as soon as it is proposed, and a leaving
//! one until the controller has removed it. A leader that cannot reach the controller can never shrink its ISR and
//! continue alone.

use std::time::{Duration, Instant};

/// A member of a proposed ISR. The controller accepts it only if the leader knows its current broker epoch (KIP-903).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Broker id.
    pub broker: i32,
    /// Broker epoch. -1 if unknown: for the leader itself, and for members that have not fetched yet.
    pub broker_epoch: i64,
}

/// A change of the ISR that the leader proposes to the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The new ISR, the leader included.
    pub isr: Vec<Member>,
    /// Version of the state that the proposal replaces. The controller refuses the proposal if the state has changed
    /// since.
    pub version: i32,
}

/// The leader's view of its followers.
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
    /// Log end that the follower's last fetch offset claimed. Records below it are on the follower's disk (in commit
    /// mode).
    end: Option<i64>,
    /// The last time at which the follower had all records that the leader had at that time. `None` if it never had
    /// them in this leadership.
    caught_up: Option<Instant>,
    last_fetch: Option<Instant>,
    leader_end_at_last_fetch: i64,
    /// First offset of the last records that the leader sent to the follower.
    given_from: Option<i64>,
    /// Arrival time of the follower's last request.
    last_request: Option<Instant>,
    /// Numbers of the follower's last two requests, the later one first; 0 if there was none.
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

/// Result of a follower's fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The claim is recorded.
    Noted,
    /// The broker is not a replica of the partition.
    Stranger,
    /// The request has an older broker epoch, so its claims are ignored.
    Stale,
}

impl InSync {
    /// Start without any fetch seen. From `now`, ISR members have `replica.lag.time.max.ms` to fetch.
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

    /// Record a follower's fetch from `offset` while the leader's log ends at `leader_end`.
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
            // The follower has all records up to the leader's end as of the follower's previous fetch. So it can be in
            // sync even if the leader never pauses.
            follower.caught_up = follower.caught_up.max(follower.last_fetch);
        }
        follower.end = Some(offset);
        follower.last_fetch = Some(now);
        follower.leader_end_at_last_fetch = leader_end;
        Claim::Noted
    }

    /// Record the arrival of a follower's request. `number` was assigned at its first evaluation.
    pub(super) fn came(&mut self, broker: i32, received: Instant, number: u64) {
        let mut followers = self.followers.iter_mut();
        if let Some(follower) = followers.find(|known| known.broker == broker)
            && follower.last_request < Some(received)
        {
            follower.last_request = Some(received);
            follower.requests = [number, follower.requests[0]];
        }
    }

    /// Return whether all other replicas that are, or may be, in sync have sent a request after the one with this
    /// number. Each follower has one request in flight, and the first one to arrive may have waited while the leader
    /// was paused. So only the second one was certainly sent afterwards.
    pub(super) fn all_came_since(&self, number: u64) -> bool {
        self.followers
            .iter()
            .filter(|follower| self.may_be_in_sync(follower.broker))
            .all(|follower| follower.requests[1] > number)
    }

    /// Record that a follower receives records from `offset`. Return whether it received them before and fetches them
    /// again.
    pub(super) fn gives(&mut self, broker: i32, offset: i64) -> bool {
        let mut followers = self.followers.iter_mut();
        let Some(follower) = followers.find(|known| known.broker == broker) else {
            return false;
        };
        follower.given_from.replace(offset) == Some(offset)
    }

    /// Return the smallest log end of all replicas that are, or may be, in sync. `local_end` is the leader's own end
    /// (its flushed end in commit mode). Return `None` until all of them have fetched, so that the high watermark stays
    /// unchanged.
    #[must_use]
    pub(super) fn minimum(&self, local_end: i64) -> Option<i64> {
        self.followers
            .iter()
            .filter(|follower| self.may_be_in_sync(follower.broker))
            .try_fold(local_end, |least, follower| {
                follower.end.map(|end| least.min(end))
            })
    }

    /// Return the most advanced member for which `wanted` holds and that has all records below `offset`.
    pub(super) fn most_advanced(&self, offset: i64, wanted: impl Fn(i32) -> bool) -> Option<i32> {
        let members = self.followers.iter();
        let wanted = members.filter(|known| {
            self.committed.contains(&known.broker)
                && known.end.is_some_and(|end| end >= offset)
                && wanted(known.broker)
        });
        // Choose the first among equals, so that a consumer does not switch back and forth.
        let most = wanted.rev().max_by_key(|known| known.end);
        most.map(|known| known.broker)
    }

    /// Return a follower's claimed end; `None` if it has not fetched yet.
    #[must_use]
    fn end_of(&self, broker: i32) -> Option<i64> {
        self.followers
            .iter()
            .find(|follower| follower.broker == broker)?
            .end
    }

    /// Return all brokers that are, or may be, in sync, the leader included.
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

    /// Propose to add a follower that has just fetched, if it has all committed records and all records of older
    /// leaders. `epoch_start` is the log end when this leadership began. Return `None` while another proposal is
    /// pending.
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

    /// Propose to remove a member that has just fetched from below the high watermark. It has lost records and must not
    /// be elected until it has copied them again. Return `None` while another proposal is pending.
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

    /// Propose to remove members that have been behind for longer than `lag_max`.
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

    /// Apply the controller's state for this leadership, from a response or an order. Return false if the state is not
    /// newer.
    pub(super) fn written(&mut self, isr: &[i32], version: i32) -> bool {
        if version <= self.version {
            return false;
        }
        self.committed = isr.to_vec();
        self.version = version;
        self.proposed = None;
        true
    }

    /// Drop the proposal for `version`, which the controller refused and will never write. Call this only when that is
    /// certain.
    pub(super) fn refused(&mut self, version: i32) {
        if version == self.version {
            self.proposed = None;
        }
    }

    /// Replace the replicas (reassignment). Replicas that remain keep their state.
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
