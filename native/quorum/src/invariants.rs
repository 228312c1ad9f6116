//! Invariants that hold after every event. Checked in debug builds and in the simulator.

use crate::quorum::Quorum;
use crate::role::Role;

impl<D> Quorum<D> {
    /// # Panics
    /// If an invariant is broken.
    pub(crate) fn check(&self) {
        if !cfg!(any(debug_assertions, feature = "planted")) {
            return;
        }
        let (log, state, key) = (&self.log, &self.state, self.settings.key);
        assert!(
            self.flushed <= log.end_offset(),
            "what is on disk is in the log"
        );
        assert!(
            self.high_watermark <= log.end_offset(),
            "what is committed is in the log"
        );
        assert!(
            self.high_watermark >= log.start().offset,
            "what is removed is committed"
        );
        assert!(
            state.epoch >= log.last_epoch(),
            "the log has no later epoch than the state"
        );
        let pending = log.end_offset() > self.flushed;
        let flushes = self.flush.is_some() || self.unflushed;
        assert!(!pending || flushes, "what is not on disk is being flushed");
        match &self.role {
            Role::Leader(leadership) => {
                assert_eq!(state.leader, Some(key.id), "a leader knows that it leads");
                assert_eq!(state.voted, Some(key), "a leader voted for itself");
                assert!(
                    log.end_offset() >= leadership.first_offset,
                    "a leader's log only grows"
                );
            }
            Role::Candidate(ballot) => {
                assert_eq!(state.voted, Some(key), "a candidate votes for itself");
                assert_eq!(state.leader, None, "a candidate's epoch has no leader");
                let known = |voter| voter == key || self.log.voters().contains(voter);
                let all = ballot.granted.iter().all(|&voter| known(voter));
                assert!(all, "only voters vote");
            }
            Role::Follower(following) => {
                assert_eq!(
                    state.leader,
                    Some(following.leader),
                    "a follower knows its leader"
                );
                assert_ne!(following.leader, key.id, "nothing follows itself");
            }
            Role::Unattached { .. }
            | Role::Prospective(_)
            | Role::Resigned { .. }
            | Role::Halted => {}
        }
    }
}
