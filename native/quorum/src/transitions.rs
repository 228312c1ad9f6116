//! The transitions between roles, one function each.

use std::collections::VecDeque;

use crate::action::{Action, Decision};
use crate::batch::Body;
use crate::fault::planted;
use crate::message::{Answer, Ask, Error};
use crate::quorum::Quorum;
use crate::role::{Ballot, LeaderView, Leadership, Role};
use crate::transition::{Cause, RoleName};

impl<D> Quorum<D> {
    /// Start of the process: → Resigned if the replica was the leader, else → Unattached. The only voter of a cluster
    /// does not wait for others.
    pub(crate) fn start(&mut self) {
        let only = self.voters().is_only(self.settings.key);
        let election_at = match only {
            true => self.now,
            false => self.election_timeout(),
        };
        self.role = match self.state.leader == Some(self.settings.key.id) {
            true => Role::Resigned { election_at },
            false => Role::Unattached { election_at },
        };
        self.announce(self.role.name(), Cause::Started);
    }

    /// Any → Unattached, in this epoch or a higher one.
    pub(crate) fn become_unattached(&mut self, epoch: i32, cause: Cause) {
        let from = self.leave();
        let election_at = match cause {
            Cause::LeaderRefused | Cause::LeaderResigned | Cause::Lost => {
                self.after(0, self.settings.timeouts.backoff_max_ms)
            }
            _ => self.election_timeout(),
        };
        self.enter_epoch(epoch, None);
        self.role = Role::Unattached { election_at };
        self.announce(from, cause);
    }

    /// Any but Leader, in an epoch without a leader → Unattached with a vote.
    pub(crate) fn become_unattached_voted(&mut self, candidate: crate::keys::ReplicaKey) {
        let from = self.role.name();
        self.state.voted = Some(candidate);
        self.write_state();
        self.role = Role::Unattached {
            election_at: self.election_timeout(),
        };
        self.announce(from, Cause::Voted);
    }

    /// Unattached, Follower, Candidate, Resigned → Prospective. Request pre-votes from the voters in the same epoch.
    pub(crate) fn become_prospective(&mut self, cause: Cause) {
        let from = self.leave();
        let mut ballot = self.new_ballot();
        ballot.granted.push(self.settings.key);
        self.role = Role::Prospective(ballot);
        self.announce(from, cause);
        self.ask_for_votes();
    }

    /// Prospective → Candidate; the only voter becomes a candidate from any role. Begin an epoch and request votes. The
    /// candidate's own vote counts when it is on disk.
    pub(crate) fn become_candidate(&mut self, cause: Cause) {
        let from = self.leave();
        self.state.epoch += 1;
        self.state.leader = None;
        self.state.voted = Some(self.settings.key);
        self.leader_refused = false;
        self.leader_resigned = false;
        self.write_state();
        self.role = Role::Candidate(self.new_ballot());
        self.announce(from, cause);
        self.ask_for_votes();
        if planted!(self, VoteNotFlushed) {
            self.on_vote_written();
        }
    }

    /// Candidate → Leader. Begin the epoch in the log; the first leader also writes the voters and the topic's id.
    pub(crate) fn become_leader(&mut self) {
        let from = self.role.name();
        self.state.leader = Some(self.settings.key.id);
        self.write_state();
        self.role = Role::Leader(Box::new(Leadership {
            first_offset: self.log.end_offset(),
            since: self.now,
            replicas: Vec::new(),
            waiting: Vec::new(),
            undecided: VecDeque::new(),
            announce_at: self.now,
        }));
        self.announce(from, Cause::Won);
        if !planted!(self, NoLeaderChangeRecord) {
            self.append_as_leader(1, Body::LeaderChange(self.settings.key));
        }
        let bootstrap = self.log.voters_end() == 0;
        if bootstrap {
            self.append_as_leader(1, Body::Voters(self.log.voters().clone()));
        }
        if self.log.topic_id().is_none() || planted!(self, TopicIdWrittenAgain) {
            self.append_as_leader(1, Body::TopicId(self.settings.new_topic_id));
        }
    }

    /// Any → Follower, in this epoch or a higher one.
    pub(crate) fn become_follower(&mut self, epoch: i32, leader: i32, cause: Cause) {
        let from = self.leave();
        self.enter_epoch(epoch, Some(leader));
        self.leader_refused = false;
        self.role = Role::Follower(LeaderView {
            leader,
            until: self.fetch_timeout(),
            fetched: false,
            high_watermark: 0,
            snapshot: None,
        });
        self.announce(from, cause);
    }

    /// Leader → Resigned. Tell the voters that they may elect another leader.
    pub(crate) fn become_resigned(&mut self, cause: Cause, successor: Option<i32>) {
        let successors = self.preferred_successors(successor);
        let from = self.leave();
        // A removed leader starts no election: it looks for the next leader.
        let election_at = match cause {
            Cause::Removed => self.now + self.settings.timeouts.pause_ms,
            _ => self.election_timeout(),
        };
        self.role = Role::Resigned { election_at };
        self.announce(from, cause);
        let topic_id = self.named_topic_id();
        for &peer in &successors {
            let preferred_successors = successors.clone();
            self.ask(
                peer,
                topic_id,
                Ask::EndQuorumEpoch {
                    preferred_successors,
                },
            );
        }
    }

    /// Any → Halted, after a storage error.
    pub(crate) fn halt(&mut self) {
        let from = self.leave();
        self.held.clear();
        self.role = Role::Halted;
        self.announce(from, Cause::StorageFailed);
    }

    /// Start an election, with pre-votes first unless this is the only voter.
    pub(crate) fn elect(&mut self, cause: Cause) {
        if self.voters().is_only(self.settings.key) {
            self.become_candidate(Cause::OnlyVoter);
        } else if planted!(self, PreVoteSkipped) {
            self.become_candidate(cause);
        } else {
            self.become_prospective(cause);
        }
    }

    /// Leave the role; answer a leader's waiting requests and undecided proposals.
    fn leave(&mut self) -> RoleName {
        let from = self.role.name();
        self.fetch = None;
        self.fetch_at = self.now;
        if let Role::Leader(leadership) = &mut self.role {
            let waiting = std::mem::take(&mut leadership.waiting);
            let undecided = std::mem::take(&mut leadership.undecided);
            let epoch = self.state.epoch;
            self.role = Role::Resigned { election_at: 0 };
            for fetch in waiting {
                let mut response = self.response(Error::NotLeader, Answer::Empty);
                response.epoch = epoch;
                self.send(Action::Respond {
                    handle: fetch.handle,
                    response,
                });
            }
            for (end_offset, proposal) in undecided {
                let decision = match planted!(self, DeposedLeaderConfirms) {
                    true => Decision::Committed { end_offset },
                    false => Decision::Unknown,
                };
                self.decide(proposal, decision);
            }
        }
        from
    }

    /// Enter an epoch, or learn the leader of the current one. Learning the leader keeps the vote of the epoch.
    fn enter_epoch(&mut self, epoch: i32, leader: Option<i32>) {
        let before = self.state;
        if epoch > self.state.epoch {
            self.state.epoch = epoch;
            self.state.leader = None;
            self.state.voted = None;
            self.leader_refused = false;
            self.leader_resigned = false;
        }
        if leader.is_some() {
            debug_assert!(self.state.leader.is_none_or(|known| Some(known) == leader));
            self.state.leader = leader;
        }
        if self.state != before && !planted!(self, EpochNotWritten) {
            self.write_state();
        }
    }

    fn new_ballot(&mut self) -> Ballot {
        let timeouts = self.settings.timeouts;
        Ballot {
            asked: Vec::new(),
            granted: Vec::new(),
            refused: Vec::new(),
            retry_at: self.now + timeouts.retry_ms,
            ends_at: self.election_timeout(),
        }
    }

    pub(crate) fn election_timeout(&mut self) -> u64 {
        let timeouts = self.settings.timeouts;
        self.after(timeouts.election_ms, timeouts.election_ms)
    }

    pub(crate) fn fetch_timeout(&mut self) -> u64 {
        let timeouts = self.settings.timeouts;
        self.after(timeouts.fetch_ms, timeouts.backoff_max_ms)
    }
}
