//! After any sequence of elections, restarts and appends, the logs of two brokers are equal and have all committed
//! records.

mod support;

use proptest::prelude::*;
use pybroker_storage::FlushMode;
use support::*;

#[derive(Debug, Clone)]
enum Step {
    /// Append records on the leader.
    Append { acks: i16, count: usize },
    /// Elect the other broker. The old leader is only notified after it has appended `late` more batches.
    Elect { late: usize },
    /// Stop the follower, cleanly or with a kill, and start it again.
    Restart { clean: bool },
    /// Wait until the follower has caught up.
    Settle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (prop_oneof![Just(1i16), Just(-1)], 1..6usize)
            .prop_map(|(acks, count)| Step::Append { acks, count }),
        3 => (0..4usize).prop_map(|late| Step::Elect { late }),
        1 => any::<bool>().prop_map(|clean| Step::Restart { clean }),
        2 => Just(Step::Settle),
    ];
    proptest::collection::vec(step, 1..16)
}

/// The two brokers, the current leader, and the records that are known to be committed.
struct World {
    brokers: [TestBroker; 2],
    mode: FlushMode,
    /// Index of the leader: 0 or 1.
    leader: usize,
    epoch: i32,
    number: usize,
    committed: Vec<u8>,
    /// Whether the follower has recovered its log, so that it does not know how much of it is on disk.
    recovered: bool,
}

impl World {
    const TOPIC: u128 = 1;

    fn new(mode: FlushMode) -> Self {
        let world = Self {
            brokers: two(),
            mode,
            leader: 0,
            epoch: 0,
            number: 0,
            committed: Vec::new(),
            recovered: false,
        };
        world.tell(0);
        world.tell(1);
        world
    }

    fn tip() -> pybroker_model::TopicIdPartition {
        tip(Self::TOPIC, 0)
    }

    fn tell(&self, broker: usize) {
        let leader = self.brokers[self.leader].id;
        let order = order_of(Self::tip(), leader, self.epoch, self.mode, &[1, 2]);
        self.brokers[broker].apply(&[order]);
    }

    fn append(&mut self, broker: usize, acks: i16) {
        self.number += 1;
        let value = format!("{:05} {}", self.number, "x".repeat(self.number % 700));
        append(
            &self.brokers[broker].partition(Self::tip()),
            acks,
            &[&value],
        );
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Append { acks, count } => {
                for _ in 0..count {
                    self.append(self.leader, acks);
                }
            }
            Step::Elect { late } => {
                self.note_committed();
                let old = self.leader;
                self.leader = 1 - old;
                self.epoch += 1;
                self.tell(self.leader);
                for _ in 0..late {
                    self.append(old, 1);
                }
                self.append(self.leader, 1);
                self.tell(old);
                self.recovered = false;
            }
            Step::Restart { clean } => {
                let follower = 1 - self.leader;
                self.brokers[follower].restart(clean);
                introduce(&self.brokers);
                self.tell(follower);
                self.recovered = !clean;
            }
            Step::Settle => self.settle(),
        }
        self.check_claims();
    }

    /// Check that the leader's high watermark is not above the end of the follower's log on disk.
    fn check_claims(&self) {
        if self.mode == FlushMode::Os || self.recovered {
            return;
        }
        let [leader, follower] =
            [self.leader, 1 - self.leader].map(|at| self.brokers[at].partition(Self::tip()));
        for _ in 0..20 {
            let committed = leader.high_watermark();
            let missing = follower.unflushed_records();
            let on_disk = follower.log_end_offset() - missing;
            assert!(
                committed <= on_disk,
                "{committed} is committed, and the follower has {on_disk} on its disk"
            );
        }
    }

    fn note_committed(&mut self) {
        let leader = &self.brokers[self.leader];
        let high_watermark = leader.partition(Self::tip()).high_watermark();
        let bytes = leader.bytes(Self::tip());
        let length = pybroker_model::Batches::new(&bytes)
            .map_while(Result::ok)
            .take_while(|(header, _)| header.last_offset() < high_watermark)
            .map(|(_, bytes)| bytes.len())
            .sum();
        assert!(
            bytes.starts_with(&self.committed),
            "what was committed stays"
        );
        // A new leader may have a lower high watermark than its predecessor.
        if length > self.committed.len() {
            self.committed = bytes[..length].to_vec();
        }
    }

    fn settle(&mut self) {
        let [leader, follower] = [self.leader, 1 - self.leader].map(|at| &self.brokers[at]);
        support::settle(leader, follower, Self::tip());
        assert_eq!(leader.bytes(Self::tip()), follower.bytes(Self::tip()));
        self.recovered = false;
        self.note_committed();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn logs_end_up_equal_and_what_was_committed_stays(
        steps in steps(),
        mode in prop_oneof![Just(FlushMode::Commit), Just(FlushMode::Os)],
    ) {
        let mut world = World::new(mode);
        for step in &steps {
            world.run(step);
        }
        world.settle();
    }
}
