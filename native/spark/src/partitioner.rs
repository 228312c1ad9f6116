//! Partitioner of records without a key. [`pybroker_model::partition_of_key`] handles records with a key.

/// Sticky partitioner for records without a key. It fills the batch of one partition, then moves to the next partition
/// of a shuffled cycle, as the Java producer does (KIP-480, KIP-794). So batches become full.
#[derive(Debug)]
pub(crate) struct Sticky {
    current: i32,
    state: u64,
}

impl Sticky {
    pub(crate) fn new(seed: u64, partitions: i32) -> Self {
        let mut sticky = Self {
            current: 0,
            state: seed | 1,
        };
        sticky.next(partitions);
        sticky
    }

    pub(crate) const fn current(&self) -> i32 {
        self.current
    }

    /// Move to another partition, because the batch of the current one is full.
    pub(crate) fn next(&mut self, partitions: i32) {
        let partitions = partitions.max(1) as u64;
        // xorshift64: partitions need not be unpredictable.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let mut chosen = self.state % partitions;
        if partitions > 1 && chosen == self.current as u64 {
            chosen = (chosen + 1) % partitions;
        }
        self.current = chosen as i32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sticky_partition_changes_and_stays_in_range() {
        let mut sticky = Sticky::new(7, 5);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            let before = sticky.current();
            sticky.next(5);
            assert_ne!(before, sticky.current());
            seen[sticky.current() as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
        let mut only = Sticky::new(0, 1);
        only.next(1);
        assert_eq!(only.current(), 0);
    }
}
