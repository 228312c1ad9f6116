//! What the replicas in sync have, as their leader knows it: the least of it may be shown to consumers. Pure.

/// What the ISR of a partition has, as far as its leader knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplicaEnds {
    /// Brokers in sync other than the leader, with the end that each of them claims by its fetch offset; a follower
    /// flushes before it claims. `None` until its first fetch of this leader epoch.
    followers: Vec<(i32, Option<i64>)>,
}

impl ReplicaEnds {
    /// For a leader that has heard of nobody yet. `isr` includes the leader.
    #[must_use]
    pub(super) fn new(leader: i32, isr: &[i32]) -> Self {
        let followers = isr.iter().filter(|&&id| id != leader).map(|&id| (id, None));
        Self {
            followers: followers.collect(),
        }
    }

    /// A follower's fetch claims `end`. False if it is not in sync: its claim does not count.
    pub(super) fn claim(&mut self, broker: i32, end: i64) -> bool {
        match self.followers.iter_mut().find(|(id, _)| *id == broker) {
            Some((_, known)) => {
                *known = Some(end);
                true
            }
            None => false,
        }
    }

    /// The ISR changed within a leader epoch: those who stay keep their claims.
    pub(super) fn keep_claims_of(&mut self, earlier: &Self) {
        for (id, end) in &mut self.followers {
            *end = earlier
                .followers
                .iter()
                .find(|(known, _)| known == id)
                .and_then(|(_, end)| *end);
        }
    }

    /// The minimum over the ISR: `local_end` is the leader's own (flushed end in commit mode, log end in os mode).
    /// `None` while a member of the ISR has not claimed anything: the high watermark stays where it is.
    #[must_use]
    pub(super) fn minimum(&self, local_end: i64) -> Option<i64> {
        self.followers
            .iter()
            .try_fold(local_end, |least, (_, end)| end.map(|end| least.min(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_replica_is_its_own_minimum() {
        assert_eq!(ReplicaEnds::new(1, &[1]).minimum(7), Some(7));
    }

    #[test]
    fn silent_followers_hold_it_back_and_strangers_do_not_count() {
        let mut ends = ReplicaEnds::new(1, &[1, 2, 3]);
        assert!(ends.claim(2, 5));
        assert_eq!(ends.minimum(7), None);
        assert!(!ends.claim(4, 1));
        assert!(ends.claim(3, 9));
        assert_eq!(ends.minimum(7), Some(5));
        assert!(ends.claim(2, 9));
        assert_eq!(ends.minimum(7), Some(7));
    }
}
