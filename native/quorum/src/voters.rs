//! Voter changes, one at a time (KIP-853).

use crate::action::Refusal;
use crate::batch::Body;
use crate::fault::planted;
use crate::keys::{ReplicaKey, VoterSet};
use crate::quorum::Quorum;
use crate::role::Role;

impl<D> Quorum<D> {
    pub(crate) fn on_add_voter(&mut self, proposal: u64, voter: ReplicaKey) {
        if let Some(refusal) = self.refuses_change() {
            return self.refuse(proposal, refusal);
        }
        if self.voters().has_id(voter.id) {
            return self.refuse(proposal, Refusal::DuplicateVoter);
        }
        if !self.has_caught_up(voter) {
            return self.refuse(proposal, Refusal::NotCaughtUp);
        }
        let mut voters = self.voters().with(voter);
        if planted!(self, TwoVotersAtOnce) {
            let key = self.settings.key;
            let replaced = voters.iter().find(|&other| other != key && other != voter);
            voters = replaced.map_or(voters.clone(), |replaced| voters.without(replaced));
        }
        self.change_voters(proposal, voters);
    }

    pub(crate) fn on_remove_voter(&mut self, proposal: u64, voter: ReplicaKey) {
        if let Some(refusal) = self.refuses_change() {
            return self.refuse(proposal, refusal);
        }
        if !self.voters().contains(voter) {
            return self.refuse(proposal, Refusal::VoterNotFound);
        }
        if self.voters().is_only(voter) {
            return self.refuse(proposal, Refusal::LastVoter);
        }
        let voters = self.voters().without(voter);
        self.change_voters(proposal, voters);
    }

    /// Return why a change must wait, or `None`. Two sets that differ by one voter share a voter in all their
    /// majorities, but this holds only for consecutive sets. So each set must be committed before the next one. A
    /// leader must also have committed a record in its own epoch: otherwise a leader of another epoch may have replaced
    /// the previous set without this leader's knowledge.
    fn refuses_change(&self) -> Option<Refusal> {
        let Role::Leader(leadership) = &self.role else {
            return Some(Refusal::NotLeader);
        };
        let mut pending = self.log.voters_end() > self.high_watermark;
        let mut new = self.high_watermark <= leadership.first_offset;
        pending &= !planted!(self, VoterChangeNotWaitedFor);
        new &= !planted!(self, VoterChangeBeforeOwnCommit);
        (pending || new).then_some(Refusal::NotReady)
    }

    fn has_caught_up(&self, key: ReplicaKey) -> bool {
        let Role::Leader(leadership) = &self.role else {
            return false;
        };
        let recent = self.now.saturating_sub(self.settings.timeouts.fetch_ms);
        leadership.progress(key).is_some_and(|progress| {
            progress.end_offset >= self.high_watermark && progress.fetched_at >= recent
        })
    }

    /// Append a new voter set. It takes effect on append, so a majority of the new voters commits it.
    fn change_voters(&mut self, proposal: u64, voters: VoterSet) {
        let end = self.append_as_leader(1, Body::Voters(voters));
        self.decide_at(end, proposal);
        self.advance_as_leader();
    }
}
