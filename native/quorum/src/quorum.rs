//! The state machine: the effect of each event, and the state that all roles share.

use std::collections::VecDeque;

use crate::action::{Action, Decision, Event, Refusal};
use crate::batch::{EpochEnd, SnapshotHeader};
use crate::fault::planted;
use crate::keys::{ReplicaKey, VoterSet};
use crate::log_index::LogIndex;
use crate::message::{Answer, Ask, Error, Request, Response};
use crate::random::Jitter;
use crate::role::Role;
use crate::settings::Settings;
use crate::state::QuorumState;
use crate::transition::{Cause, RoleName, Transition};

/// A flush that the owner has not reported yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingFlush {
    pub(crate) ticket: u64,
    /// End of the log that the flush brings to disk. A truncation lowers it.
    pub(crate) end: i64,
}

/// The current Fetch or FetchSnapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingFetch {
    pub(crate) correlation: u64,
    pub(crate) peer: i32,
    pub(crate) retry_at: u64,
}

/// A replica's progress as its leader knows it. Times are milliseconds of the leader's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaProgress {
    /// The replica.
    pub key: ReplicaKey,
    /// The replica's log agrees with the leader's up to this offset and is on disk; -1 if they have not agreed yet.
    pub end_offset: i64,
    /// Time of the last fetch.
    pub fetched_at: u64,
    /// The last time at which the replica had all records that the leader had at that time.
    pub caught_up_at: Option<u64>,
}

/// One replica of the metadata log.
#[derive(Debug, Clone)]
pub struct Quorum<D> {
    pub(crate) settings: Settings,
    pub(crate) now: u64,
    pub(crate) jitter: Jitter,
    pub(crate) role: Role,
    /// The quorum state, including changes that are still being written to disk.
    pub(crate) state: QuorumState,
    pub(crate) log: LogIndex,
    /// The log is on disk up to this offset.
    pub(crate) flushed: i64,
    pub(crate) high_watermark: i64,
    /// The leader's port has refused a connection in this epoch.
    pub(crate) leader_refused: bool,
    /// The leader of this epoch has resigned and cannot lead it again.
    pub(crate) leader_resigned: bool,
    /// The next fetch names [`Uuid::METADATA`] if the topic id in this log is uncommitted, because the leader refused
    /// that id.
    pub(crate) fetch_by_sentinel: bool,
    pub(crate) fetch: Option<PendingFetch>,
    pub(crate) fetch_at: u64,
    /// Index of the node last asked for the leader.
    pub(crate) probe: usize,
    pub(crate) flush: Option<PendingFlush>,
    /// The log has changed since the last flush began.
    pub(crate) unflushed: bool,
    /// The latest write of the state that the owner has not reported yet.
    pub(crate) state_ticket: Option<u64>,
    /// Messages that wait for a write of the state.
    pub(crate) held: VecDeque<(u64, Action<D>)>,
    pub(crate) last_ticket: u64,
    pub(crate) last_correlation: u64,
    pub(crate) actions: Vec<Action<D>>,
}

impl<D> Quorum<D> {
    /// Start a replica with the content of its disk. All of `log` must be on disk.
    ///
    /// # Panics
    /// If the log has a higher epoch than the state, which no crash leaves behind.
    #[must_use]
    pub fn new(settings: Settings, state: QuorumState, log: LogIndex, now: u64) -> Self {
        let mut quorum = Self {
            now,
            jitter: Jitter::new(settings.seed),
            role: Role::Unattached { election_at: 0 },
            flushed: log.end_offset(),
            high_watermark: log.snapshot().offset.max(log.start().offset),
            leader_refused: false,
            leader_resigned: false,
            fetch_by_sentinel: false,
            fetch: None,
            fetch_at: now,
            probe: settings.key.id.unsigned_abs() as usize,
            flush: None,
            unflushed: false,
            state_ticket: None,
            held: VecDeque::new(),
            last_ticket: 0,
            last_correlation: 0,
            actions: Vec::new(),
            settings,
            state,
            log,
        };
        quorum.start();
        quorum.check();
        quorum
    }

    /// Process an event that happens at `now` (milliseconds), and append the resulting actions to `actions`. If `now`
    /// is before the time of an earlier call, that earlier time counts.
    pub fn step(&mut self, now: u64, event: Event<D>, actions: &mut Vec<Action<D>>) {
        self.step_all(now, [event], actions);
    }

    /// Process events of the same time; they share one flush and one response where possible.
    pub fn step_all(
        &mut self,
        now: u64,
        events: impl IntoIterator<Item = Event<D>>,
        actions: &mut Vec<Action<D>>,
    ) {
        self.now = self.now.max(now);
        for event in events {
            if !matches!(self.role, Role::Halted) {
                self.take_in(event);
            }
        }
        if !matches!(self.role, Role::Halted) {
            self.on_time();
            self.check();
        }
        actions.append(&mut self.actions);
    }

    fn take_in(&mut self, event: Event<D>) {
        match event {
            Event::Time => {}
            Event::Request { handle, request } => self.on_request(handle, request),
            Event::Response {
                peer,
                correlation,
                response,
            } => self.on_response(peer, correlation, response),
            Event::Refused { peer } => self.on_refused(peer),
            Event::RequestFailed { correlation } => self.on_request_failed(correlation),
            Event::Flushed { ticket } => self.on_flushed(ticket),
            Event::StateWritten { ticket } => self.on_state_written(ticket),
            Event::StorageFailed => self.halt(),
            Event::AnswerFetches => self.on_answer_fetches(),
            Event::Propose {
                proposal,
                records,
                data,
            } => self.on_propose(proposal, records, data),
            Event::AddVoter { proposal, voter } => self.on_add_voter(proposal, voter),
            Event::RemoveVoter { proposal, voter } => self.on_remove_voter(proposal, voter),
            Event::Resign { successor } => self.on_resign(successor),
            Event::SnapshotWritten { header, start } => self.log.trim(start, header.id),
        }
    }

    fn on_request(&mut self, handle: u64, request: Request) {
        let error = self.inspect(&request);
        if error != Error::None {
            let response = Response {
                error,
                epoch: 0,
                leader: None,
                answer: Answer::Empty,
            };
            return self.send(Action::Respond { handle, response });
        }
        match request.ask {
            Ask::Vote { last, pre_vote, .. } => self.on_vote(handle, &request, last, pre_vote),
            Ask::BeginQuorumEpoch => self.on_begin_epoch(handle, &request),
            Ask::EndQuorumEpoch {
                ref preferred_successors,
            } => self.on_end_epoch(handle, &request, preferred_successors),
            Ask::Fetch {
                from,
                high_watermark,
                wait_ms,
            } => self.on_fetch(handle, &request, from, high_watermark, wait_ms),
            Ask::FetchSnapshot { id } => self.on_fetch_snapshot(handle, &request, id),
        }
    }

    fn on_response(&mut self, peer: i32, correlation: u64, response: Response<D>) {
        let foreign = matches!(
            response.error,
            Error::InconsistentClusterId | Error::UnknownTopicId | Error::InvalidVoterKey
        );
        let moved = !foreign && self.observe(response.epoch, response.leader);
        let fetched = self
            .fetch
            .is_some_and(|fetch| fetch.correlation == correlation);
        if fetched {
            self.fetch = None;
            self.fetch_at = self.now + self.settings.timeouts.pause_ms;
        }
        let stale = !fetched && !planted!(self, StaleResponseAppended);
        match response.answer {
            _ if moved => self.fetch_at = self.now,
            Answer::Vote { granted } => self.on_vote_response(correlation, response.epoch, granted),
            Answer::Fetch {
                high_watermark,
                fetched,
            } if !stale => self.on_fetched(peer, response.epoch, high_watermark, fetched),
            Answer::SnapshotPart if !stale => self.on_snapshot_part(peer, response.epoch),
            Answer::Snapshot(snapshot) if !stale => {
                self.on_snapshot(peer, response.epoch, snapshot)
            }
            Answer::Empty if fetched => self.on_fetch_error(peer, response.epoch, response.error),
            _ => {}
        }
    }

    /// Accept an epoch and its leader from a message; return whether the role has changed.
    pub(crate) fn observe(&mut self, epoch: i32, leader: Option<i32>) -> bool {
        let leader = leader.filter(|&leader| leader != self.settings.key.id);
        if planted!(self, StepDownForgotten) && self.is_leader() {
            return false;
        }
        match leader {
            _ if epoch < self.state.epoch => false,
            Some(leader) if epoch > self.state.epoch => {
                self.become_follower(epoch, leader, Cause::HigherEpoch);
                true
            }
            None if epoch > self.state.epoch => {
                self.become_unattached(epoch, Cause::HigherEpoch);
                true
            }
            Some(leader) if self.may_follow() => {
                self.become_follower(epoch, leader, Cause::LeaderFound);
                true
            }
            _ => false,
        }
    }

    /// Return whether to follow a leader of this epoch that another node names. A replica that requests pre-votes
    /// because it cannot reach that leader does not follow it.
    fn may_follow(&self) -> bool {
        match self.role {
            _ if self.leader_resigned => false,
            Role::Unattached { .. } => !self.leader_refused,
            Role::Prospective(_) | Role::Candidate(_) => self.state.leader.is_none(),
            _ => false,
        }
    }

    /// Do all work whose time has come.
    fn on_time(&mut self) {
        match self.role {
            Role::Unattached { election_at } | Role::Resigned { election_at } => {
                if self.now >= election_at {
                    self.on_election_time();
                }
            }
            Role::Prospective(_) | Role::Candidate(_) => self.on_ballot_time(),
            Role::Leader(_) => self.on_leader_time(),
            Role::Follower(ref following) => {
                if self.now >= following.until {
                    self.on_leader_lost();
                }
            }
            Role::Halted => return,
        }
        self.flush();
        self.fetch_if_due();
    }

    /// Handle the election timeout: a voter starts an election; a removed leader looks for the next leader.
    fn on_election_time(&mut self) {
        if self.may_elect() {
            self.elect(Cause::TimedOut);
        } else if matches!(self.role, Role::Resigned { .. }) {
            self.become_unattached(self.state.epoch, Cause::TimedOut);
        }
    }

    /// Return the time by which the owner must call `step` with [`Event::Time`].
    #[must_use]
    pub fn deadline(&self) -> u64 {
        let role = match &self.role {
            Role::Unattached { election_at } if self.may_elect() => *election_at,
            Role::Resigned { election_at } => *election_at,
            Role::Prospective(ballot) | Role::Candidate(ballot) => {
                ballot.ends_at.min(ballot.retry_at)
            }
            Role::Leader(leadership) => self.leader_deadline(leadership),
            Role::Follower(following) => following.until,
            _ => u64::MAX,
        };
        role.min(self.fetch_deadline())
    }

    pub(crate) fn is_voter(&self) -> bool {
        self.voters().contains(self.settings.key)
    }

    /// Return whether this replica starts elections. A voter does. So does a removed voter until it knows that its
    /// removal is committed: without it, no majority of the other voters may have a long enough log. The removed voter
    /// then needs the votes of the new set, which does not include its own.
    pub(crate) fn may_elect(&self) -> bool {
        let key = self.settings.key;
        self.is_voter()
            || (self.log.voters_end() > self.high_watermark
                && self.log.voters_before().contains(key)
                && !planted!(self, RemovedVoterWaits))
    }

    /// Return the voters of the latest record, committed or not.
    #[must_use]
    pub fn voters(&self) -> &VoterSet {
        if planted!(self, CommittedVotersOnly) {
            return self.log.voters_at(self.high_watermark);
        }
        self.log.voters()
    }

    pub(crate) fn majority(&self) -> usize {
        let voters = self.voters();
        if planted!(self, HalfIsMajority) && voters.len() > 1 {
            return voters.len() / 2;
        }
        voters.majority()
    }

    /// Return the time `fixed_ms` from now, plus a random part of `jitter_ms`.
    pub(crate) fn after(&mut self, fixed_ms: u64, jitter_ms: u64) -> u64 {
        self.now + fixed_ms + self.jitter.below(jitter_ms + 1)
    }

    pub(crate) fn decide(&mut self, proposal: u64, decision: Decision) {
        self.actions.push(Action::Decide { proposal, decision });
    }

    pub(crate) fn refuse(&mut self, proposal: u64, refusal: Refusal) {
        self.decide(proposal, Decision::Refused(refusal));
    }

    pub(crate) fn announce(&mut self, from: RoleName, cause: Cause) {
        let to = self.role.name();
        self.actions
            .push(Action::Become(Transition { from, to, cause }));
    }

    /// Return the quorum's part of a snapshot of the image at `end`. `None` if the log up to `end` is not committed and
    /// on disk, or `end` is not beyond the last snapshot.
    #[must_use]
    pub fn snapshot_header(&self, end: i64) -> Option<SnapshotHeader> {
        if end > self.high_watermark.min(self.flushed) || end <= self.log.snapshot().offset {
            return None;
        }
        let voters = if planted!(self, SnapshotWithOldVoters) {
            self.log.first_voters()
        } else {
            self.log.voters_at(end)
        };
        Some(SnapshotHeader {
            id: EpochEnd {
                epoch: self.log.epoch_before(end),
                offset: end,
            },
            voters: voters.clone(),
            topic_id: self.log.topic_id().filter(|&(offset, _)| offset < end),
        })
    }

    /// Drop the messages that wait for the disk. A copy of this replica then answers without delay.
    #[cfg(feature = "planted")]
    pub fn forget_held_messages(&mut self) {
        self.held.clear();
        self.state_ticket = None;
    }

    /// Return the leader's view of the replicas that have fetched in its epoch, except itself. The list is empty on
    /// other replicas.
    #[must_use]
    pub fn progress(&self) -> Vec<ReplicaProgress> {
        let Role::Leader(leadership) = &self.role else {
            return Vec::new();
        };
        let replicas = leadership.replicas.iter();
        replicas
            .map(|replica| ReplicaProgress {
                key: replica.key,
                end_offset: replica.end_offset,
                fetched_at: replica.fetched_at,
                caught_up_at: replica.caught_up_at,
            })
            .collect()
    }

    /// Return the leader of the epoch, if it is known and has not resigned.
    #[must_use]
    pub fn leader(&self) -> Option<i32> {
        match &self.role {
            Role::Leader(_) => Some(self.settings.key.id),
            Role::Follower(following) => Some(following.leader),
            _ => None,
        }
    }

    /// Return whether this replica leads its epoch.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Return the role.
    #[must_use]
    pub fn role(&self) -> RoleName {
        self.role.name()
    }

    /// Return the state, including changes that are still being written to disk.
    #[must_use]
    pub fn state(&self) -> QuorumState {
        self.state
    }

    /// Return the index of the log.
    #[must_use]
    pub fn log(&self) -> &LogIndex {
        &self.log
    }

    /// Return the offset below which all records are on disk here.
    #[must_use]
    pub fn flushed_end(&self) -> i64 {
        self.flushed
    }

    /// Return the offset below which all records are committed.
    #[must_use]
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }
}
