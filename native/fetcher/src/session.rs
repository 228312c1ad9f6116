//! The follower's side of a fetch session (KIP-227): the leader remembers the last request, so that a request lists
//! only changed and forgotten partitions. No I/O.

use pybroker_model::{IdMap, TopicIdPartition};
use pybroker_protocol::ErrorCode;

/// Epoch of a request for a new session.
const INITIAL: i32 = 0;

/// The leader's session as the follower knows it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    id: i32,
    /// Epoch of the next request. With [`INITIAL`], the request begins a session and lists all partitions.
    epoch: i32,
    listed: IdMap<TopicIdPartition, ()>,
    /// Partitions of the session that the next request may have to forget.
    doubtful: Vec<TopicIdPartition>,
}

impl Session {
    /// Return id and epoch of the next request.
    pub(crate) const fn number(&self) -> (i32, i32) {
        (self.id, self.epoch)
    }

    /// Return whether the next request begins a session and lists all partitions.
    pub(crate) const fn is_new(&self) -> bool {
        self.epoch == INITIAL
    }

    /// Return whether the session has no partitions.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Return whether the session has this partition.
    pub(crate) fn lists(&self, tip: TopicIdPartition) -> bool {
        self.listed.contains_key(&tip)
    }

    /// Mark a partition that the next request may have to forget.
    pub(crate) fn doubt(&mut self, tip: TopicIdPartition) {
        if self.listed.contains_key(&tip) {
            self.doubtful.push(tip);
        }
    }

    /// Add the partitions of the next request. Return the marked partitions that are not `wanted`, which the request
    /// must forget.
    pub(crate) fn list(
        &mut self,
        named: impl Iterator<Item = TopicIdPartition>,
        wanted: impl Fn(&TopicIdPartition) -> bool,
    ) -> Vec<TopicIdPartition> {
        let mut forgotten = std::mem::take(&mut self.doubtful);
        forgotten.sort_unstable();
        forgotten.dedup();
        forgotten.retain(|tip| !wanted(tip) && self.listed.remove(tip).is_some());
        self.listed.extend(named.map(|tip| (tip, ())));
        forgotten
    }

    /// Apply the error and session id of a response. Return false if the session has ended and the next request must
    /// list all partitions.
    pub(crate) fn answered(&mut self, error: ErrorCode, id: i32) -> bool {
        if error != ErrorCode::NONE || id == 0 || (!self.is_new() && id != self.id) {
            self.forget();
            return false;
        }
        self.id = id;
        self.epoch = if self.epoch == i32::MAX {
            1
        } else {
            self.epoch + 1
        };
        true
    }

    /// End the session.
    pub(crate) fn forget(&mut self) {
        self.id = 0;
        self.epoch = INITIAL;
        self.listed.clear();
        self.doubtful.clear();
    }
}

#[cfg(test)]
mod tests {
    use pybroker_model::{TopicId, Uuid};

    use super::*;

    fn tip(partition: i32) -> TopicIdPartition {
        TopicIdPartition {
            topic_id: TopicId::new(Uuid::from_u128(7)).expect("not zero"),
            partition,
        }
    }

    #[test]
    fn requests_count_up_and_only_what_was_listed_is_forgotten() {
        let mut session = Session::default();
        assert_eq!(session.number(), (0, 0));
        session.doubt(tip(1));
        assert_eq!(session.list([1, 2, 3].map(tip).into_iter(), |_| true), []);
        assert!(session.answered(ErrorCode::NONE, 9));
        assert_eq!(session.number(), (9, 1));
        session.doubt(tip(1));
        session.doubt(tip(1));
        session.doubt(tip(2));
        session.doubt(tip(4));
        // Partition 2 returned before it was forgotten.
        let forgotten = session.list([tip(2)].into_iter(), |each| *each != tip(1));
        assert_eq!(forgotten, [tip(1)]);
        assert!(session.answered(ErrorCode::NONE, 9));
        assert_eq!(session.number(), (9, 2));
        session.doubt(tip(1));
        assert_eq!(session.list([].into_iter(), |_| false), []);
        assert!(!session.is_empty());
    }

    #[test]
    fn a_leader_that_does_not_remember_is_told_everything_again() {
        for (error, id) in [
            (ErrorCode::FETCH_SESSION_ID_NOT_FOUND, 0),
            (ErrorCode::INVALID_FETCH_SESSION_EPOCH, 9),
            // This response closes the session.
            (ErrorCode::NONE, 0),
            (ErrorCode::NONE, 10),
        ] {
            let mut session = Session::default();
            session.list([tip(1)].into_iter(), |_| true);
            assert!(session.answered(ErrorCode::NONE, 9));
            assert!(!session.answered(error, id));
            assert!(session.is_new() && session.is_empty());
            assert_eq!(session.number(), (0, 0));
        }
    }
}
