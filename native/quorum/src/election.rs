//! Requests for votes and pre-votes, and the answers to them.

use crate::batch::EpochEnd;
use crate::fault::planted;
use crate::keys::ReplicaKey;
use crate::message::{Answer, Ask, Error, Request};
use crate::quorum::Quorum;
use crate::role::Role;
use crate::transition::Cause;

/// The state of a ballot.
#[derive(PartialEq, Eq)]
enum Outcome {
    Open,
    Won,
    Lost,
}

impl<D> Quorum<D> {
    /// Ask the voters that have not answered in this ballot.
    pub(crate) fn ask_for_votes(&mut self) {
        let (Role::Prospective(ballot) | Role::Candidate(ballot)) = &self.role else {
            return;
        };
        let pre_vote = matches!(self.role, Role::Prospective(_));
        let open: Vec<ReplicaKey> = self
            .voters()
            .iter()
            .filter(|key| *key != self.settings.key)
            .filter(|key| !ballot.granted.contains(key) && !ballot.refused.contains(key))
            .collect();
        let (topic_id, last) = (self.named_topic_id(), self.log.last());
        let mut asked = Vec::with_capacity(open.len());
        for voter in open {
            let ask = Ask::Vote {
                voter: Some(voter),
                last,
                pre_vote,
            };
            asked.push((self.ask(voter.id, topic_id, ask), voter));
        }
        let retry_at = self.now + self.settings.timeouts.retry_ms;
        if let Role::Prospective(ballot) | Role::Candidate(ballot) = &mut self.role {
            ballot.asked.append(&mut asked);
            ballot.retry_at = retry_at;
        }
    }

    pub(crate) fn on_vote(
        &mut self,
        handle: u64,
        request: &Request,
        last: EpochEnd,
        pre_vote: bool,
    ) {
        if request.epoch < self.state.epoch {
            return self.respond(
                handle,
                Error::FencedLeaderEpoch,
                Answer::Vote { granted: false },
            );
        }
        self.observe(request.epoch, None);
        let granted = request.epoch == self.state.epoch
            && match pre_vote {
                true => self.grants_pre_vote(last),
                false => self.grants_vote(request.sender, last),
            };
        if pre_vote && !granted {
            self.stand_instead_of(last);
        }
        if granted && !pre_vote && self.state.voted != Some(request.sender) {
            self.become_unattached_voted(request.sender);
        }
        self.respond(handle, Error::None, Answer::Vote { granted });
    }

    fn grants_vote(&self, candidate: ReplicaKey, last: EpochEnd) -> bool {
        let free = match self.state.voted {
            None => self.state.leader.is_none(),
            Some(voted) => voted == candidate && self.state.leader.is_none(),
        };
        let free = free || (planted!(self, VoteTwice) && !self.is_leader());
        free && self.is_up_to_date(last)
    }

    /// Return whether to grant a pre-vote, which is no promise. A replica that is in contact with the leader refuses,
    /// so that a replica that has lost contact does not depose the leader.
    fn grants_pre_vote(&self, last: EpochEnd) -> bool {
        let has_leader = match &self.role {
            Role::Leader(_) => true,
            Role::Follower(following) => following.fetched && self.now < following.until,
            _ => false,
        };
        (!has_leader || planted!(self, PreVoteAlwaysGranted)) && self.is_up_to_date(last)
    }

    /// Start an election soon. A candidate with a shorter log keeps asking and never wins, so without a leader this
    /// voter becomes a candidate itself.
    fn stand_instead_of(&mut self, last: EpochEnd) {
        let soon = self.after(0, self.settings.timeouts.backoff_max_ms);
        let better = !self.is_up_to_date(last) && self.may_elect();
        if let Role::Unattached { election_at } = &mut self.role
            && better
        {
            *election_at = soon.min(*election_at);
        }
    }

    fn is_up_to_date(&self, last: EpochEnd) -> bool {
        if planted!(self, VoteForLongerLog) {
            return last.offset >= self.log.end_offset();
        }
        last >= self.log.last() || planted!(self, VoteForStaleLog)
    }

    pub(crate) fn on_vote_response(&mut self, correlation: u64, epoch: i32, granted: bool) {
        let granted = granted || planted!(self, RefusedVoteCounted);
        if epoch != self.state.epoch {
            return;
        }
        let (Role::Prospective(ballot) | Role::Candidate(ballot)) = &mut self.role else {
            return;
        };
        let asked = ballot.asked.iter().find(|(asked, _)| *asked == correlation);
        let Some(&(_, voter)) = asked else {
            return;
        };
        ballot.asked.retain(|&(_, asked)| asked != voter);
        ballot.refused.retain(|&refused| refused != voter);
        match granted {
            true => ballot.granted.push(voter),
            false => ballot.refused.push(voter),
        }
        self.count_votes();
    }

    /// Record that a voter's process does not run, so that it gives no vote. A split ballot can then end before its
    /// timeout.
    pub(crate) fn on_voter_refused(&mut self, peer: i32) {
        let voter = self.voters().iter().find(|voter| voter.id == peer);
        if let (Role::Prospective(ballot) | Role::Candidate(ballot), Some(voter)) =
            (&mut self.role, voter)
            && !ballot.granted.contains(&voter)
            && !ballot.refused.contains(&voter)
        {
            ballot.refused.push(voter);
            self.count_votes();
        }
    }

    /// Handle the written state: a candidate may now count its own vote.
    pub(crate) fn on_vote_written(&mut self) {
        let key = self.settings.key;
        if let Role::Candidate(ballot) = &mut self.role
            && !ballot.granted.contains(&key)
        {
            ballot.granted.push(key);
            self.count_votes();
        }
    }

    fn count_votes(&mut self) {
        let outcome = self.outcome();
        match &mut self.role {
            Role::Prospective(_) if outcome == Outcome::Won => self.become_candidate(Cause::Won),
            Role::Prospective(_) if outcome == Outcome::Lost => self.on_pre_vote_lost(),
            Role::Candidate(_) if outcome == Outcome::Won => self.become_leader(),
            Role::Candidate(ballot) if outcome == Outcome::Lost => {
                let pause = self.settings.timeouts.backoff_max_ms;
                let soon = self.now + self.jitter.below(pause + 1);
                ballot.ends_at = ballot.ends_at.min(soon);
            }
            _ => {}
        }
    }

    fn outcome(&self) -> Outcome {
        let (Role::Prospective(ballot) | Role::Candidate(ballot)) = &self.role else {
            return Outcome::Open;
        };
        let votes = ballot
            .granted
            .iter()
            .filter(|voter| self.voters().contains(**voter));
        if votes.count() >= self.majority() {
            return Outcome::Won;
        }
        match ballot.refused.len() + self.voters().majority() > self.voters().len() {
            true => Outcome::Lost,
            false => Outcome::Open,
        }
    }

    pub(crate) fn on_ballot_time(&mut self) {
        let (Role::Prospective(ballot) | Role::Candidate(ballot)) = &self.role else {
            return;
        };
        if self.now >= ballot.ends_at {
            match self.role {
                Role::Candidate(_) => self.become_prospective(Cause::Lost),
                _ => self.on_pre_vote_lost(),
            }
        } else if self.now >= ballot.retry_at {
            self.ask_for_votes();
        }
    }

    /// Handle a lost pre-vote: the other voters are in contact with a leader, have longer logs, or do not answer.
    /// Return to the leader, unless it has resigned or refuses connections; then another node may know a new one.
    fn on_pre_vote_lost(&mut self) {
        let gone = std::mem::take(&mut self.leader_refused) || self.leader_resigned;
        match self.state.leader {
            Some(leader) if leader != self.settings.key.id && !gone => {
                self.become_follower(self.state.epoch, leader, Cause::Lost);
            }
            _ => self.become_unattached(self.state.epoch, Cause::Lost),
        }
    }

    pub(crate) fn on_begin_epoch(&mut self, handle: u64, request: &Request) {
        if request.epoch < self.state.epoch {
            return self.respond(handle, Error::FencedLeaderEpoch, Answer::Empty);
        }
        let leader = request.sender.id;
        if !self.observe(request.epoch, Some(leader)) && !self.leader_resigned {
            match self.role {
                // The message comes from the leader itself, which is reachable after all.
                Role::Unattached { .. } | Role::Prospective(_)
                    if leader != self.settings.key.id =>
                {
                    self.become_follower(request.epoch, leader, Cause::LeaderFound);
                }
                _ => {}
            }
        }
        self.respond(handle, Error::None, Answer::Empty);
    }

    pub(crate) fn on_end_epoch(&mut self, handle: u64, request: &Request, successors: &[i32]) {
        if request.epoch < self.state.epoch {
            return self.respond(handle, Error::FencedLeaderEpoch, Answer::Empty);
        }
        self.observe(request.epoch, None);
        self.leader_resigned = request.epoch == self.state.epoch;
        let waits = match &self.role {
            Role::Follower(following) => following.leader == request.sender.id,
            Role::Unattached { .. } => true,
            _ => false,
        };
        if waits {
            if self.may_elect() && successors.first() == Some(&self.settings.key.id) {
                self.elect(Cause::Preferred);
            } else {
                self.become_unattached(request.epoch, Cause::LeaderResigned);
            }
        }
        self.respond(handle, Error::None, Answer::Empty);
    }
}
