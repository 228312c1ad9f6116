//! A fetch offset acknowledges records. A leader commits only records on the follower's disk, even if that disk is
//! slow, and partitions on other disks do not wait for it.

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use pybroker_fetcher::FetcherSettings;
use pybroker_model::TopicIdPartition;
use pybroker_replica::Partition;
use pybroker_storage::FlushMode;
use support::*;

/// Blocks all flushes of one log directory until it is dropped.
struct BlockedFlushes(Vec<PathBuf>);

impl BlockedFlushes {
    /// Block each flush thread of the directory: the thread opens a leader epoch file that is a named pipe.
    fn hold(broker: &TestBroker, dir: usize) -> Self {
        // Use enough partitions that every directory gets one for each of its flush threads.
        let orders = |leader_epoch| -> Vec<_> {
            let order = |partition| {
                let tip = tip(99, partition);
                order_of(tip, broker.id, leader_epoch, FlushMode::Os, &[broker.id])
            };
            (0..32).map(order).collect()
        };
        // The second epoch is written to the file only with its first record. The flush then syncs both.
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
        // Wait until every flush thread is blocked.
        let waiting = || one.log_dir().expect("open").flusher().waiting();
        wait_until("the threads that flush", || waiting() == 0);
        Self(pipes)
    }
}

impl Drop for BlockedFlushes {
    /// Let the flushes continue. The directory then fails, because a pipe cannot be synced.
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
    // The flush threads sync the first records of a segment in the segment file. Later small appends go to the journal.
    for tip in tips.iter().filter(|tip| **tip != slow) {
        append(&brokers[0].partition(*tip), -1, &["a"]);
        settle(&brokers[0], &brokers[1], *tip);
    }
    let held = BlockedFlushes::hold(&brokers[1], 0);

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
    // After a restart the acknowledged records are on disk, and the follower fetches the others again.
    brokers[1].restart(false);
    introduce(&brokers);
    brokers[1].apply(&orders);
    for tip in &tips {
        settle(&brokers[0], &brokers[1], *tip);
        assert_eq!(brokers[0].bytes(*tip), brokers[1].bytes(*tip));
    }
}
