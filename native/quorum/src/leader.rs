//! The leader: appends, answers fetches, advances the high watermark, checks its quorum, resigns.

use pybroker_model::Uuid;

use crate::action::{Action, Decision, Refusal};
use crate::batch::{Batch, Body, EpochEnd};
use crate::fault::planted;
use crate::keys::ReplicaKey;
use crate::message::{Answer, Ask, Error, FetchResult, Request};
use crate::quorum::Quorum;
use crate::role::{Leadership, Progress, Role, WaitingFetch};
use crate::transition::Cause;

/// The leader's view of a fetch offset.
enum Position {
    /// The follower's log is a prefix of the leader's.
    Prefix,
    Other(FetchResult<std::convert::Infallible>),
}

impl<D> Quorum<D> {
    /// Append one batch in this leader's epoch; return the offset after it.
    pub(crate) fn append_as_leader(&mut self, records: u32, body: Body<D>) -> i64 {
        let batch = Batch {
            base_offset: self.log.end_offset(),
            records: records.max(1),
            epoch: self.state.epoch,
            body,
            encoded: None,
        };
        let end = batch.end_offset();
        self.append(vec![batch]);
        end
    }

    pub(crate) fn on_propose(&mut self, proposal: u64, records: u32, data: D) {
        if !self.is_leader() {
            return self.refuse(proposal, Refusal::NotLeader);
        }
        let end = self.append_as_leader(records, Body::Data(data));
        self.decide_at(end, proposal);
    }

    /// Decide the proposal when everything below `end` is committed.
    pub(crate) fn decide_at(&mut self, end: i64, proposal: u64) {
        if planted!(self, ConfirmedBeforeCommit) {
            let decision = Decision::Committed { end_offset: end };
            return self.decide(proposal, decision);
        }
        if let Role::Leader(leadership) = &mut self.role {
            leadership.undecided.push_back((end, proposal));
        }
    }

    pub(crate) fn on_fetch(
        &mut self,
        handle: u64,
        request: &Request,
        from: EpochEnd,
        high_watermark: i64,
        wait_ms: u64,
    ) {
        let error = self.inspect_fetch(request);
        if error != Error::None {
            return self.respond(handle, error, Answer::Empty);
        }
        self.heard_from(request.sender);
        let position = self.position_of(from);
        let behind_id = self
            .log
            .topic_id()
            .is_some_and(|(offset, _)| from.offset > offset);
        match position {
            Position::Other(fetched) => self.respond_elsewhere(handle, fetched),
            // A follower whose log agrees up to this offset has the id's record. A follower whose log diverges got its
            // response above. It must not be refused here, because it could then never truncate the diverging records,
            // which precede the id's record.
            Position::Prefix
                if request.topic_id == Uuid::METADATA
                    && behind_id
                    && !planted!(self, SentinelAlwaysAccepted) =>
            {
                self.respond(handle, Error::UnknownTopicId, Answer::Empty);
            }
            Position::Prefix => {
                let wait_ms = wait_ms.min(self.settings.timeouts.fetch_wait_ms);
                self.keep_fetch(WaitingFetch {
                    handle,
                    key: request.sender,
                    from: from.offset,
                    high_watermark,
                    until: self.now + wait_ms,
                    may_end_at: self.now + wait_ms / 2,
                });
            }
        }
    }

    /// Return the error with which the leader refuses a Fetch or FetchSnapshot of this sender.
    fn inspect_fetch(&self, request: &Request) -> Error {
        if request.epoch != self.state.epoch && !planted!(self, FetchOfAnotherEpochCounted) {
            return match request.epoch < self.state.epoch {
                true => Error::FencedLeaderEpoch,
                false => Error::UnknownLeaderEpoch,
            };
        }
        if !self.is_leader() {
            return Error::NotLeader;
        }
        let named = self.named_topic_id();
        let known = request.topic_id == Uuid::METADATA || request.topic_id == named;
        match known || planted!(self, UnknownTopicIdAccepted) {
            true => Error::None,
            false => Error::UnknownTopicId,
        }
    }

    fn position_of(&self, from: EpochEnd) -> Position {
        let start = self.log.start();
        if from.offset < start.offset || from.epoch < start.epoch {
            if planted!(self, SnapshotNotOffered) {
                return Position::Other(FetchResult::Batches(Vec::new()));
            }
            return Position::Other(FetchResult::Snapshot(self.log.snapshot()));
        }
        let end = self.log.end_of_epoch(from.epoch);
        let agrees = end.epoch == from.epoch || planted!(self, DivergenceIgnored);
        match agrees && from.offset <= end.offset.max(start.offset) {
            true => Position::Prefix,
            false => Position::Other(FetchResult::Diverging(end)),
        }
    }

    fn respond_elsewhere(&mut self, handle: u64, fetched: FetchResult<std::convert::Infallible>) {
        let fetched = match fetched {
            FetchResult::Batches(_) => FetchResult::Batches(Vec::new()),
            FetchResult::Diverging(end) => FetchResult::Diverging(end),
            FetchResult::Snapshot(id) => FetchResult::Snapshot(id),
        };
        let answer = Answer::Fetch {
            high_watermark: self.high_watermark,
            fetched,
        };
        self.respond(handle, Error::None, answer);
    }

    /// Record that the replica is alive and can reach this leader.
    fn heard_from(&mut self, key: ReplicaKey) {
        let now = self.now;
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        match leadership
            .replicas
            .iter_mut()
            .find(|replica| replica.key == key)
        {
            Some(replica) => replica.fetched_at = now,
            None => leadership.replicas.push(Progress {
                key,
                end_offset: -1,
                fetched_at: now,
                caught_up_at: None,
                leader_end: (i64::MAX, now),
            }),
        }
    }

    /// Count a fetch: it proves that the sender has this log's prefix on its disk. Hold the request until there are
    /// records or a new high watermark to return.
    fn keep_fetch(&mut self, fetch: WaitingFetch) {
        let WaitingFetch { key, from, .. } = fetch;
        let (now, end) = (self.now, self.log.end_offset());
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        if let Some(replica) = leadership
            .replicas
            .iter_mut()
            .find(|replica| replica.key == key)
        {
            replica.end_offset = replica.end_offset.max(from);
            if from >= end {
                replica.caught_up_at = Some(now);
            } else if from >= replica.leader_end.0 {
                // The replica now has all records that the leader had at the replica's previous fetch. Do not require
                // the leader's current end, because a replica never reaches it under load.
                replica.caught_up_at = replica.caught_up_at.max(Some(replica.leader_end.1));
            }
            replica.leader_end = (end, now);
        }
        let before = leadership.waiting.iter().position(|fetch| fetch.key == key);
        leadership.waiting.push(fetch);
        if let Some(index) = before {
            let before = leadership.waiting.swap_remove(index);
            self.answer_fetch(before);
        }
        self.advance_as_leader();
    }

    fn answer_fetch(&mut self, fetch: WaitingFetch) {
        let to = self.log.end_offset();
        if fetch.from < self.log.start().offset {
            let id = self.log.snapshot();
            return self.respond_elsewhere(fetch.handle, FetchResult::Snapshot(id));
        }
        let answer = Answer::Fetch {
            high_watermark: self.high_watermark,
            fetched: FetchResult::Batches(Vec::new()),
        };
        if fetch.from >= to {
            return self.respond(fetch.handle, Error::None, answer);
        }
        // Do not wait for a pending write of the state: a leader's vote is already on disk. A delay is also unsafe,
        // because the log could change before the owner reads it.
        let action = Action::RespondWithBatches {
            handle: fetch.handle,
            response: self.response(Error::None, answer),
            from: fetch.from,
            to,
        };
        self.actions.push(action);
    }

    /// Answer the fetches that have new records or a new high watermark to return, or whose wait has ended. With the
    /// latter, also answer those that have waited half of their time: their senders' next fetches then arrive together,
    /// and all nodes wake up less often.
    fn answer_waiting(&mut self) {
        let (now, end, high_watermark) = (self.now, self.log.end_offset(), self.high_watermark);
        let Role::Leader(leadership) = &self.role else {
            return;
        };
        let ends = leadership.waiting.iter().any(|fetch| now >= fetch.until);
        let mut index = 0;
        while let Role::Leader(leadership) = &mut self.role
            && let Some(fetch) = leadership.waiting.get(index)
        {
            let news = fetch.from < end || fetch.high_watermark < high_watermark;
            if news || (ends && now >= fetch.may_end_at) {
                let fetch = leadership.waiting.swap_remove(index);
                self.answer_fetch(fetch);
            } else {
                index += 1;
            }
        }
    }

    pub(crate) fn on_answer_fetches(&mut self) {
        if let Role::Leader(leadership) = &mut self.role {
            for fetch in std::mem::take(&mut leadership.waiting) {
                self.answer_fetch(fetch);
            }
        }
    }

    pub(crate) fn on_fetch_snapshot(&mut self, handle: u64, request: &Request, id: EpochEnd) {
        let error = self.inspect_fetch(request);
        if error != Error::None {
            return self.respond(handle, error, Answer::Empty);
        }
        self.heard_from(request.sender);
        if id != self.log.snapshot() {
            return self.respond(handle, Error::SnapshotNotFound, Answer::Empty);
        }
        let action = Action::RespondWithSnapshot {
            handle,
            response: self.response(Error::None, Answer::Empty),
            id,
        };
        self.actions.push(action);
    }

    /// Advance the high watermark to the offset that a majority of voters has on disk, if a record of the leader's own
    /// epoch is below it: older records on a majority may still be replaced (Raft, section 5.4.2).
    pub(crate) fn advance_as_leader(&mut self) {
        let Role::Leader(leadership) = &self.role else {
            return;
        };
        let own = match planted!(self, UnflushedLeaderCounted) {
            true => self.log.end_offset(),
            false => self.flushed,
        };
        let key = self.settings.key;
        let end_of = |voter: ReplicaKey| match voter == key {
            true => own,
            false => leadership
                .progress(voter)
                .map_or(-1, |progress| progress.end_offset),
        };
        let mut ends: Vec<i64> = self.voters().iter().map(end_of).collect();
        if planted!(self, ObserverCounted) {
            let observers = leadership
                .replicas
                .iter()
                .filter(|replica| !self.voters().contains(replica.key));
            ends.extend(observers.map(|replica| replica.end_offset));
        }
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let high_watermark = ends.get(self.majority() - 1).copied().unwrap_or(-1);
        let own_epoch = high_watermark > leadership.first_offset;
        if high_watermark > self.high_watermark
            && (own_epoch || planted!(self, OlderEpochCommittedByCount))
        {
            self.commit(high_watermark);
            self.decide_committed();
            self.resign_if_removed();
        }
    }

    fn decide_committed(&mut self) {
        while let Role::Leader(leadership) = &mut self.role
            && let Some(&(end_offset, proposal)) = leadership.undecided.front()
            && end_offset <= self.high_watermark
        {
            leadership.undecided.pop_front();
            self.decide(proposal, Decision::Committed { end_offset });
        }
    }

    fn resign_if_removed(&mut self) {
        let committed = self.log.voters_end() <= self.high_watermark;
        if committed && !self.is_voter() && !planted!(self, RemovedLeaderStays) {
            self.become_resigned(Cause::Removed, None);
        }
    }

    pub(crate) fn on_resign(&mut self, successor: Option<i32>) {
        if self.is_leader() {
            self.become_resigned(Cause::Asked, successor);
        }
    }

    /// Return the other voters: the wanted one first, then those with the longest logs.
    pub(crate) fn preferred_successors(&self, wanted: Option<i32>) -> Vec<i32> {
        let Role::Leader(leadership) = &self.role else {
            return Vec::new();
        };
        let end_of = |key| {
            leadership
                .progress(key)
                .map_or(-1, |progress| progress.end_offset)
        };
        let others = self
            .voters()
            .iter()
            .filter(|voter| *voter != self.settings.key);
        let mut others: Vec<ReplicaKey> = others.collect();
        others.sort_by_key(|&voter| (wanted != Some(voter.id), -end_of(voter)));
        others.iter().map(|voter| voter.id).collect()
    }

    /// Return the last time at which this leader had contact with a majority of voters, itself included.
    fn quorum_heard_at(&self, leadership: &Leadership) -> u64 {
        let heard_at = |voter: ReplicaKey| match leadership.progress(voter) {
            _ if voter == self.settings.key => self.now,
            Some(progress) => progress.fetched_at,
            None => leadership.since,
        };
        let mut heard: Vec<u64> = self.voters().iter().map(heard_at).collect();
        heard.sort_unstable_by(|a, b| b.cmp(a));
        heard.get(self.majority() - 1).copied().unwrap_or(self.now)
    }

    fn resigns_at(&self, leadership: &Leadership) -> u64 {
        if planted!(self, NoCheckQuorum) || self.voters().is_only(self.settings.key) {
            return u64::MAX;
        }
        self.quorum_heard_at(leadership) + self.settings.timeouts.check_quorum_ms()
    }

    pub(crate) fn leader_deadline(&self, leadership: &Leadership) -> u64 {
        let waiting = leadership.waiting.iter().map(|fetch| fetch.until).min();
        waiting
            .unwrap_or(u64::MAX)
            .min(leadership.announce_at)
            .min(self.resigns_at(leadership))
    }

    pub(crate) fn on_leader_time(&mut self) {
        let Role::Leader(leadership) = &self.role else {
            return;
        };
        if self.now >= self.resigns_at(leadership) {
            return self.become_resigned(Cause::QuorumLost, None);
        }
        if self.now >= leadership.announce_at {
            self.announce_epoch();
        }
        self.answer_waiting();
    }

    /// Send BeginQuorumEpoch to the voters that do not fetch.
    fn announce_epoch(&mut self) {
        let (now, timeouts) = (self.now, self.settings.timeouts);
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        leadership.announce_at = now + timeouts.fetch_ms / 2;
        let recent = now.saturating_sub(timeouts.fetch_wait_ms + timeouts.retry_ms);
        // Forget observers that no longer fetch.
        let forgotten = now.saturating_sub(10 * timeouts.fetch_ms);
        let voters = self.log.voters();
        leadership
            .replicas
            .retain(|replica| voters.contains(replica.key) || replica.fetched_at >= forgotten);
        let fetches = |key| {
            leadership
                .progress(key)
                .is_some_and(|progress| progress.fetched_at >= recent)
        };
        let silent = voters
            .iter()
            .filter(|&voter| voter != self.settings.key && !fetches(voter));
        let silent: Vec<ReplicaKey> = silent.collect();
        let topic_id = self.named_topic_id();
        for voter in silent {
            self.ask(voter.id, topic_id, Ask::BeginQuorumEpoch);
        }
    }
}
