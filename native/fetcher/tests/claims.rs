//! The fetch offset is a claim: what is not on the follower's disk is not committed, however long the disk takes, and
//! partitions on other disks do not wait for it.

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use pybroker_fetcher::FetcherSettings;
use pybroker_model::TopicIdPartition;
use pybroker_replica::Partition;
use pybroker_storage::FlushMode;
use support::*;

/// Flushes of one log directory that do not end while this is there.
struct Held(Vec<PathBuf>);

impl Held {
    /// As many logs as a directory has threads that flush: each of these threads opens a leader epoch file that is a pipe.
    fn hold(broker: &TestBroker, dir: usize) -> Self {
        // Partitions are spread over the directories; so many that each has enough.
        let orders = |leader_epoch| -> Vec<_> {
            let order = |partition| {
                let tip = tip(99, partition);
                order_of(tip, broker.id, leader_epoch, FlushMode::Os, &[broker.id])
            };
            (0..32).map(order).collect()
        };
        // The second epoch is written before its first record, and flushed with it.
        broker.apply(&orders(0));
        broker.apply(&orders(1));
        let tips = || (0..32).map(|partition| tip(99, partition));
        let in_dir = |partition: &Arc<Partition>| partition.dir() == Some(dir);
        let there = tips().map(|tip| broker.partition(tip)).filter(in_dir);
        let pipes: Vec<PathBuf> = there
            .take(4)
            .map(|partition| {
                assert!(append(&partition, 1, &["x"]));
                let name = format!("topic-99-{}", partition.tip().partition);
                let pipe = broker.dir(dir).join(name).join("leader-epoch-checkpoint");
                pipe_instead_of(&pipe);
                partition.request_flush();
                pipe
            })
            .collect();
        assert_eq!(pipes.len(), 4);
        let mut there = tips().map(|tip| broker.partition(tip)).filter(in_dir);
        let one = there.next().expect("partitions are spread");
        // Each thread has taken one then, and takes no more.
        let waiting = || one.log_dir().expect("open").flusher().waiting();
        wait_until("the threads that flush", || waiting() == 0);
        Self(pipes)
    }
}

impl Drop for Held {
    /// The directory fails then: nobody can sync a pipe.
    fn drop(&mut self) {
        for pipe in &self.0 {
            let opened = std::fs::OpenOptions::new().write(true).open(pipe);
            drop(opened.expect("somebody reads"));
        }
    }
}

#[test]
fn what_is_not_flushed_is_not_claimed_and_others_go_on() {
    let mut brokers = two_with(FetcherSettings::default(), 2);
    let tips: Vec<TopicIdPartition> = (0..8).map(|partition| tip(1, partition)).collect();
    let orders: Vec<_> = tips.iter().map(|tip| order(*tip, 1, 0)).collect();
    apply(&brokers, &orders);
    let lies = |dir| {
        let mut tips = tips.iter().copied();
        let found = tips.find(|tip| brokers[1].partition(*tip).dir() == Some(dir));
        found.expect("partitions are spread")
    };
    let (slow, fast) = (lies(0), lies(1));
    // The first records of a segment are flushed in its file, by those threads; small ones after them in the journal.
    for tip in tips.iter().filter(|tip| **tip != slow) {
        append(&brokers[0].partition(*tip), -1, &["a"]);
        settle(&brokers[0], &brokers[1], *tip);
    }
    let held = Held::hold(&brokers[1], 0);

    let led = brokers[0].partition(slow);
    append(&led, -1, &["b"]);
    let follower = brokers[1].partition(slow);
    wait_until("the record", || follower.log_end_offset() == 1);
    for _ in 0..20 {
        append(&brokers[0].partition(fast), -1, &["b"]);
        settle(&brokers[0], &brokers[1], fast);
        assert_eq!(led.high_watermark(), 0, "it is not on the follower's disk");
        assert_eq!(follower.high_watermark(), 0);
    }
    drop((held, led, follower));
    // What was claimed is there after a restart, and the rest comes to the disk.
    brokers[1].restart(false);
    introduce(&brokers);
    brokers[1].apply(&orders);
    for tip in &tips {
        settle(&brokers[0], &brokers[1], *tip);
        assert_eq!(brokers[0].bytes(*tip), brokers[1].bytes(*tip));
    }
}
