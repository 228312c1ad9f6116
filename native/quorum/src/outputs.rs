//! Messages, writes and flushes, and the actions that wait for them.

use pybroker_model::Uuid;

use crate::action::Action;
use crate::batch::Batch;
use crate::fault::planted;
use crate::message::{Answer, Ask, Error, Request, Response};
use crate::quorum::{PendingFlush, Quorum};
use crate::role::Role;

impl<D> Quorum<D> {
    /// Send a message, or hold it until the state that it depends on is on disk.
    pub(crate) fn send(&mut self, message: Action<D>) {
        match self.state_ticket {
            Some(ticket) if !planted!(self, VoteNotFlushed) => {
                self.held.push_back((ticket, message))
            }
            _ => self.actions.push(message),
        }
    }

    /// Send a request and return its correlation.
    pub(crate) fn ask(&mut self, peer: i32, topic_id: Uuid, ask: Ask) -> u64 {
        self.last_correlation += 1;
        let correlation = self.last_correlation;
        let request = Request {
            cluster_id: self.settings.cluster_id,
            topic_id,
            epoch: self.state.epoch,
            sender: self.settings.key,
            ask,
        };
        self.send(Action::Send {
            peer,
            correlation,
            request,
        });
        correlation
    }

    pub(crate) fn response(&self, error: Error, answer: Answer<D>) -> Response<D> {
        Response {
            error,
            epoch: self.state.epoch,
            // Name the leader only if it has not resigned.
            leader: self.leader(),
            answer,
        }
    }

    pub(crate) fn respond(&mut self, handle: u64, error: Error, answer: Answer<D>) {
        let response = self.response(error, answer);
        self.send(Action::Respond { handle, response });
    }

    /// Write the state to disk; messages wait for it.
    pub(crate) fn write_state(&mut self) {
        self.last_ticket += 1;
        self.state_ticket = Some(self.last_ticket);
        self.actions.push(Action::WriteState {
            ticket: self.last_ticket,
            state: self.state,
        });
    }

    pub(crate) fn on_state_written(&mut self, ticket: u64) {
        while let Some(&(needed, _)) = self.held.front()
            && needed <= ticket
        {
            self.actions
                .extend(self.held.pop_front().map(|(_, message)| message));
        }
        if self.state_ticket.is_some_and(|last| last <= ticket) {
            self.state_ticket = None;
            self.on_vote_written();
        }
    }

    /// Append batches and flush them.
    pub(crate) fn append(&mut self, batches: Vec<Batch<D>>) {
        for batch in &batches {
            self.log.append(batch);
        }
        self.unflushed = true;
        self.actions.push(Action::Append(batches));
    }

    pub(crate) fn truncate(&mut self, end: i64) {
        let (voters, topic_id) = (self.log.voters().clone(), self.log.topic_id());
        self.log.truncate(end);
        if planted!(self, TruncatedVotersKept) {
            self.log.voters.push((end, voters));
        }
        if planted!(self, TruncatedTopicIdKept) {
            self.log.topic_id = topic_id;
        }
        self.flushed = self.flushed.min(end);
        if let Some(flush) = &mut self.flush {
            flush.end = flush.end.min(end);
        }
        self.unflushed = true;
        self.actions.push(Action::Truncate(end));
    }

    /// Start a flush if the log has changed. Only one flush runs at a time, so later changes share the next one.
    pub(crate) fn flush(&mut self) {
        if self.unflushed && self.flush.is_none() {
            self.unflushed = false;
            self.last_ticket += 1;
            let ticket = self.last_ticket;
            self.flush = Some(PendingFlush {
                ticket,
                end: self.log.end_offset(),
            });
            self.actions.push(Action::Flush { ticket });
        }
    }

    pub(crate) fn on_flushed(&mut self, ticket: u64) {
        if let Some(flush) = self.flush.take_if(|flush| flush.ticket == ticket) {
            self.flushed = self.flushed.max(flush.end);
            match self.role {
                Role::Leader(_) => self.advance_as_leader(),
                _ => self.advance_as_follower(),
            }
        }
    }

    /// Advance the high watermark.
    pub(crate) fn commit(&mut self, high_watermark: i64) {
        self.high_watermark = high_watermark;
        self.actions.push(Action::Commit(high_watermark));
        self.learn_topic_id();
    }

    /// Learn the topic's id when its record is committed.
    pub(crate) fn learn_topic_id(&mut self) {
        if let Some((offset, id)) = self.log.topic_id()
            && offset < self.high_watermark
            && self.state.topic_id != Some(id)
        {
            self.state.topic_id = Some(id);
            self.write_state();
        }
    }
}
