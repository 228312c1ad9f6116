//! Fetches from the leader, or from any node that may know the leader.

use pybroker_model::Uuid;

use crate::action::Action;
use crate::batch::{Batch, EpochEnd, Snapshot};
use crate::fault::planted;
use crate::log_index::LogIndex;
use crate::message::{Ask, Error, FetchResult};
use crate::quorum::{PendingFetch, Quorum};
use crate::role::Role;
use crate::transition::Cause;

impl<D> Quorum<D> {
    /// Return the topic id in the log, committed or not.
    pub(crate) fn named_topic_id(&self) -> Uuid {
        self.log.topic_id().map_or(Uuid::METADATA, |(_, id)| id)
    }

    /// Return whether the whole log is on disk, as a fetch claims.
    fn is_flushed(&self) -> bool {
        (self.flush.is_none() && !self.unflushed) || planted!(self, UnflushedFetch)
    }

    pub(crate) fn fetch_deadline(&self) -> u64 {
        match (&self.role, &self.fetch) {
            (Role::Follower(_) | Role::Unattached { .. }, Some(fetch)) => fetch.retry_at,
            (Role::Follower(_) | Role::Unattached { .. }, None) if self.is_flushed() => {
                self.fetch_at
            }
            _ => u64::MAX,
        }
    }

    pub(crate) fn fetch_if_due(&mut self) {
        if self.fetch.is_some_and(|fetch| self.now >= fetch.retry_at) {
            self.fetch = None;
            self.fetch_at = self.now;
        }
        if self.fetch.is_some() || self.now < self.fetch_at || !self.is_flushed() {
            return;
        }
        let timeouts = self.settings.timeouts;
        let (peer, snapshot, wait_ms) = match &self.role {
            // After a lost response, the rest of the fetch timeout must suffice for another one.
            Role::Follower(following) => (
                Some(following.leader),
                following.snapshot,
                timeouts
                    .fetch_wait_ms
                    .min(following.until.saturating_sub(self.now) / 2),
            ),
            // The response of any node names the leader.
            Role::Unattached { .. } => (self.next_probe(), None, 0),
            _ => return,
        };
        let Some(peer) = peer else {
            self.fetch_at = self.now + timeouts.retry_ms;
            return;
        };
        if matches!(self.role, Role::Unattached { .. }) {
            self.probe = self.probe.wrapping_add(1);
        }
        let topic_id = match self.fetch_by_sentinel && self.state.topic_id.is_none() {
            true => Uuid::METADATA,
            false => self.named_topic_id(),
        };
        let ask = match snapshot {
            Some(id) => Ask::FetchSnapshot { id },
            None => Ask::Fetch {
                from: self.log.last(),
                high_watermark: self.high_watermark,
                wait_ms,
            },
        };
        self.fetch = Some(PendingFetch {
            correlation: self.ask(peer, topic_id, ask),
            peer,
            retry_at: self.now + wait_ms + timeouts.retry_ms,
        });
    }

    /// Repeat a fetch whose connection broke. A replica that looks for a leader first waits as long as for a response,
    /// because it would otherwise ask unreachable nodes without end.
    pub(crate) fn on_request_failed(&mut self, correlation: u64) {
        let failed = self
            .fetch
            .is_some_and(|fetch| fetch.correlation == correlation);
        if failed && matches!(self.role, Role::Follower(_)) {
            self.fetch = None;
            self.fetch_at = self.now + self.settings.timeouts.pause_ms;
        }
    }

    /// Return the next of the voters and bootstrap nodes, in turn.
    fn next_probe(&self) -> Option<i32> {
        let own = self.settings.key.id;
        let voters = self.voters().iter().map(|voter| voter.id);
        let nodes = || voters.chain(self.settings.bootstrap.iter().copied());
        let others: Vec<i32> = nodes().filter(|&id| id != own).collect();
        let index = self.probe.checked_rem(others.len())?;
        others.get(index).copied()
    }

    /// Process the leader's response to a fetch.
    pub(crate) fn on_fetched(
        &mut self,
        peer: i32,
        epoch: i32,
        high_watermark: i64,
        fetched: FetchResult<D>,
    ) {
        let until = self.fetch_timeout();
        let planted = planted!(self, DivergingLogCommitted);
        let Role::Follower(following) = &mut self.role else {
            return;
        };
        if following.leader != peer || epoch != self.state.epoch {
            return;
        }
        following.until = until;
        following.fetched = true;
        // Only batches prove that this log is a prefix of the leader's. Without batches, this log's last records may
        // differ from the records that the leader has committed at those offsets.
        if matches!(fetched, FetchResult::Batches(_)) || planted {
            following.high_watermark = high_watermark;
        }
        self.fetch_at = self.now;
        match fetched {
            FetchResult::Batches(batches) => self.append_fetched(batches),
            FetchResult::Diverging(end) => self.truncate_to(end),
            FetchResult::Snapshot(id) => following.snapshot = Some(id),
        }
        self.advance_as_follower();
    }

    fn append_fetched(&mut self, batches: Vec<Batch<D>>) {
        let Some(base_offset) = batches.first().map(|batch| batch.base_offset) else {
            return;
        };
        if base_offset < self.log.end_offset() && planted!(self, StaleResponseAppended) {
            self.truncate(base_offset.max(self.log.start().offset));
        }
        if base_offset == self.log.end_offset() {
            self.fetch_by_sentinel = false;
            self.append(batches);
        }
    }

    /// Remove the records that the leader does not have. The two logs agree at most up to `leaders`.
    fn truncate_to(&mut self, leaders: EpochEnd) {
        let own = self.log.end_of_epoch(leaders.epoch);
        let mut end = match own.epoch == leaders.epoch {
            true => own.offset.min(leaders.offset),
            false => own.offset,
        };
        if planted!(self, TruncationTooShort) {
            end = leaders.offset.min(self.log.end_offset());
        }
        if planted!(self, TruncationBelowCommitted) {
            end = (end - 10).max(self.log.start().offset);
        }
        if end < self.log.end_offset() {
            self.fetch_by_sentinel = false;
            self.truncate(end);
        } else {
            // Pause, because an immediate fetch would get the same response.
            self.fetch_at = self.now + self.settings.timeouts.pause_ms;
        }
    }

    /// Set a follower's high watermark to the leader's, limited to the part of this log that is on disk.
    pub(crate) fn advance_as_follower(&mut self) {
        let Role::Follower(following) = &self.role else {
            return;
        };
        let mut high_watermark = following.high_watermark.min(self.flushed);
        if planted!(self, FollowerCommitsAll) {
            high_watermark = self.flushed;
        }
        let back = planted!(self, HighWatermarkGoesBack) && high_watermark != self.high_watermark;
        if high_watermark > self.high_watermark || back {
            self.commit(high_watermark);
        }
    }

    /// Record that the leader is alive; the owner fetches the next part of the snapshot at once.
    pub(crate) fn on_snapshot_part(&mut self, peer: i32, epoch: i32) {
        let until = self.fetch_timeout();
        let Role::Follower(following) = &mut self.role else {
            return;
        };
        if following.leader == peer && epoch == self.state.epoch {
            following.until = until;
            self.fetch_at = self.now;
        }
    }

    pub(crate) fn on_snapshot(&mut self, peer: i32, epoch: i32, snapshot: Snapshot<D>) {
        let until = self.fetch_timeout();
        let Role::Follower(following) = &mut self.role else {
            return;
        };
        if following.leader != peer || epoch != self.state.epoch {
            return;
        }
        following.snapshot = None;
        following.until = until;
        self.fetch_at = self.now;
        let id = snapshot.header.id;
        if id.offset > self.high_watermark {
            self.log = LogIndex::new(&snapshot.header);
            self.flushed = 0;
            if let Some(flush) = &mut self.flush {
                flush.end = 0;
            }
            self.high_watermark = id.offset;
            self.unflushed = true;
            self.actions.push(Action::Install(snapshot));
            self.learn_topic_id();
        }
    }

    pub(crate) fn on_fetch_error(&mut self, peer: i32, epoch: i32, error: Error) {
        let Role::Follower(following) = &mut self.role else {
            return;
        };
        if following.leader != peer {
            return;
        }
        match error {
            Error::NotLeader if epoch == self.state.epoch => {
                self.become_unattached(epoch, Cause::LeaderResigned);
                self.leader_resigned = true;
            }
            Error::UnknownTopicId => self.fetch_by_sentinel = !self.fetch_by_sentinel,
            Error::SnapshotNotFound => following.snapshot = None,
            _ => {}
        }
    }

    /// Handle the end of the fetch timeout.
    pub(crate) fn on_leader_lost(&mut self) {
        match self.may_elect() {
            true => self.elect(Cause::TimedOut),
            false => self.become_unattached(self.state.epoch, Cause::TimedOut),
        }
    }

    /// Handle a node whose port refuses connections, because its process does not run. If that node led, this replica
    /// no longer follows it, and no longer refuses pre-votes.
    pub(crate) fn on_refused(&mut self, peer: i32) {
        if self.fetch.is_some_and(|fetch| fetch.peer == peer) {
            self.fetch = None;
            self.fetch_at = self.now + self.settings.timeouts.pause_ms;
        }
        self.on_voter_refused(peer);
        let leads = matches!(&self.role, Role::Follower(following) if following.leader == peer);
        if leads && !planted!(self, RefusalIgnored) {
            let fetch_at = self.now + self.settings.timeouts.pause_ms;
            self.become_unattached(self.state.epoch, Cause::LeaderRefused);
            self.leader_refused = self.may_elect();
            self.fetch_at = fetch_at;
        }
    }
}
