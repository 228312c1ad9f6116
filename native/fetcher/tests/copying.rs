//! A follower copies its leader's log over real sockets, even after restarts, truncations and lost connections.

mod support;

use std::slice::from_ref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pybroker_fetcher::{Assignment, Broker, FetcherSettings};
use pybroker_replica::PartitionOrder;
use pybroker_storage::FlushMode;
use support::*;

/// Settings with which a leader holds a fetch for longer than any test runs.
fn patient() -> FetcherSettings {
    FetcherSettings {
        wait_max: Duration::from_secs(3_600),
        ..FetcherSettings::default()
    }
}

/// Settings of brokers whose requests use topic ids, and of brokers whose requests use names.
fn both_levels() -> [FetcherSettings; 2] {
    [true, false].map(|topic_ids| FetcherSettings {
        topic_ids,
        ..FetcherSettings::default()
    })
}

#[test]
fn what_is_committed_is_the_same_on_both_in_each_flush_mode() {
    for mode in [FlushMode::Commit, FlushMode::Os] {
        let brokers = two();
        let tips = [tip(1, 0), tip(1, 1), tip(2, 0)];
        let orders = tips.map(|tip| order_of(tip, 1, 0, mode, &[1, 2]));
        apply(&brokers, &orders);
        for (number, tip) in tips.into_iter().enumerate() {
            let led = brokers[0].partition(tip);
            for round in 0..30 {
                let value = format!("{number} {round} {}", "x".repeat(200));
                assert!(append(&led, -1, &[&value, "y"]));
            }
        }
        for tip in tips {
            settle(&brokers[0], &brokers[1], tip);
            assert_eq!(brokers[0].bytes(tip), brokers[1].bytes(tip));
        }
        let [figures] = &brokers[1].fetchers().figures()[..] else {
            panic!("one leader");
        };
        assert_eq!((figures.leader, figures.partitions), (1, 3));
        assert_eq!(figures.records, 3 * 30 * 2);
        assert!(figures.connected && figures.requests > 0 && figures.bytes > 3 * 30 * 200);
        assert_eq!(brokers[0].fetchers().figures(), []);
    }
}

#[test]
fn a_new_partition_does_not_wait_for_the_fetch_that_waits_at_the_leader() {
    let brokers = two_with(patient(), 1);
    let orders = [1, 2].map(|number| order(tip(number, 0), 1, 0));
    apply(&brokers, &orders[..1]);
    for order in &orders {
        apply(&brokers, from_ref(order));
        let led = brokers[0].partition(order.tip);
        for _ in 0..2 {
            assert!(append(&led, -1, &["x"]));
            let follower = brokers[1].partition(order.tip);
            wait_until("the record", || {
                follower.log_end_offset() == led.log_end_offset()
            });
        }
    }
}

#[test]
fn stopping_does_not_wait_for_the_leader() {
    let mut brokers = two_with(patient(), 1);
    let order = order(tip(1, 0), 1, 0);
    apply(&brokers, from_ref(&order));
    append(&brokers[0].partition(order.tip), -1, &["x"]);
    wait_until("the record", || {
        brokers[1].partition(order.tip).high_watermark() == 1
    });
    // Wait until the leader holds the follower's fetch.
    std::thread::sleep(Duration::from_millis(400));
    let before = Instant::now();
    brokers[1].fetchers().stop();
    assert!(before.elapsed() < Duration::from_secs(1));
    assert_eq!(brokers[1].fetchers().figures(), []);
    // A stop does not wait for the response to the fetch either.
    assert_eq!(
        Arc::strong_count(brokers[1].replicas()),
        2,
        "the server and the test"
    );
    brokers[1].stop(true);
}

#[test]
fn stopping_does_not_wait_for_a_leader_that_does_not_answer() {
    let broker = TestBroker::start(2);
    // The kernel accepts connections, but no process reads from them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    broker.meet(&[Broker {
        id: 1,
        address: silent.local_addr().expect("an address").to_string(),
    }]);
    broker.apply(&[order(tip(1, 0), 1, 0)]);
    let (_connection, _) = silent.accept().expect("it connects");
    let before = Instant::now();
    broker.fetchers().stop();
    assert!(before.elapsed() < Duration::from_secs(2));
    assert_eq!(
        Arc::strong_count(broker.replicas()),
        2,
        "the server and the test"
    );
}

#[test]
fn a_leader_that_moves_is_found_at_its_new_address() {
    let mut brokers = two();
    let order = order(tip(1, 0), 1, 0);
    apply(&brokers, from_ref(&order));
    append(&brokers[0].partition(order.tip), -1, &["a"]);
    settle(&brokers[0], &brokers[1], order.tip);
    brokers[0].restart(true);
    brokers[1].wait_for_line("every second broker=1: ");
    brokers[0].apply(from_ref(&order));
    append(&brokers[0].partition(order.tip), -1, &["b"]);
    introduce(&brokers);
    settle(&brokers[0], &brokers[1], order.tip);
    assert_eq!(brokers[0].bytes(order.tip), brokers[1].bytes(order.tip));
}

#[test]
fn a_leader_that_has_not_heard_yet_is_asked_again_and_others_do_not_wait_for_it() {
    let brokers = two();
    let orders = [1, 2].map(|number| order(tip(number, 0), 1, 0));
    brokers[1].apply(&orders);
    brokers[0].apply(&orders[1..]);
    append(&brokers[0].partition(orders[1].tip), -1, &["x"]);
    settle(&brokers[0], &brokers[1], orders[1].tip);
    brokers[1].wait_for_line("answers UNKNOWN_TOPIC_ID");
    brokers[0].apply(&orders);
    append(&brokers[0].partition(orders[0].tip), -1, &["x"]);
    settle(&brokers[0], &brokers[1], orders[0].tip);
    let lines = brokers[1].lines();
    let told = lines
        .iter()
        .filter(|line| line.contains("UNKNOWN_TOPIC_ID"));
    assert_eq!(told.count(), 1, "{lines:?}");
}

#[test]
fn a_leader_that_knows_a_newer_epoch_is_not_asked_before_the_controller_names_it() {
    let brokers = two();
    let tip = tip(1, 0);
    brokers[0].apply(&[order(tip, 1, 5)]);
    brokers[1].apply(&[order(tip, 1, 4)]);
    brokers[1].wait_for_line("answers FENCED_LEADER_EPOCH");
    append(&brokers[0].partition(tip), -1, &["x"]);
    // A repeated order and an older order change nothing.
    for leader_epoch in [4, 3] {
        let stale = Assignment {
            tip,
            leader: 1,
            leader_epoch,
        };
        brokers[1].fetchers().set(&[], &[stale]).expect("threads");
    }
    let other = order(support::tip(2, 0), 1, 0);
    apply(&brokers, from_ref(&other));
    append(&brokers[0].partition(other.tip), -1, &["y"]);
    settle(&brokers[0], &brokers[1], other.tip);
    assert_eq!(brokers[1].partition(tip).log_end_offset(), 0);
    brokers[1].apply(&[order(tip, 1, 5)]);
    settle(&brokers[0], &brokers[1], tip);
    let lines = brokers[1].lines();
    let told = lines.iter().filter(|line| line.contains("FENCED"));
    assert_eq!(told.count(), 1, "{lines:?}");
}

#[test]
fn an_earlier_life_of_this_broker_claims_nothing() {
    let brokers = two();
    let order = order(tip(1, 0), 1, 0);
    brokers[1].fetchers().set_broker_epoch(5);
    apply(&brokers, from_ref(&order));
    let led = brokers[0].partition(order.tip);
    append(&led, -1, &["a"]);
    settle(&brokers[0], &brokers[1], order.tip);
    brokers[1].fetchers().set_broker_epoch(4);
    append(&led, -1, &["b"]);
    brokers[1].wait_for_line("answers STALE_BROKER_EPOCH");
    assert_eq!(led.high_watermark(), 1);
    brokers[1].fetchers().set_broker_epoch(6);
    settle(&brokers[0], &brokers[1], order.tip);
}

/// Delete records on the leader, as retention does, while the leader is the only in-sync replica.
fn delete_up_to(leader: &TestBroker, order: &PartitionOrder, offset: i64) {
    let alone = PartitionOrder {
        isr: [leader.id].into(),
        version: order.version + 1,
        ..order.clone()
    };
    leader.apply(&[alone]);
    let led = leader.partition(order.tip);
    wait_until("its own flush", || led.high_watermark() >= offset);
    leader
        .replicas()
        .delete_records(order.tip, offset)
        .expect("deletes");
}

// checklist: 67
#[test]
fn the_log_start_is_followed_and_who_is_below_it_begins_anew() {
    for settings in both_levels() {
        let mut brokers = two_with(settings, 1);
        let order = order(tip(1, 0), 1, 0);
        apply(&brokers, from_ref(&order));
        let led = brokers[0].partition(order.tip);
        append(&led, -1, &["a", "b", "c"]);
        append(&led, -1, &["d"]);
        settle(&brokers[0], &brokers[1], order.tip);
        delete_up_to(&brokers[0], &order, 3);
        append(&led, -1, &["e"]);
        settle(&brokers[0], &brokers[1], order.tip);
        let start = |brokers: &[TestBroker; 2]| brokers[1].partition(order.tip).log_start_offset();
        wait_until("the log start", || start(&brokers) == 3);

        // The follower is down while the leader deletes the records that it would fetch next.
        brokers[1].stop(true);
        // The follower had caught up, so it counts as in sync until the controller has shrunk the ISR.
        led.isr_refused(order.leader_epoch, order.version + 1);
        append(&led, -1, &["f"]);
        append(&led, -1, &["g"]);
        wait_until("the flush", || led.high_watermark() == 7);
        brokers[0]
            .replicas()
            .delete_records(order.tip, 6)
            .expect("deletes");
        brokers[1].restart_after_stop();
        introduce(&brokers);
        brokers[1].apply(from_ref(&order));
        settle(&brokers[0], &brokers[1], order.tip);
        assert_eq!(start(&brokers), 6);
        brokers[1].wait_for_line("Warning topic-1 (");
        brokers[1].wait_for_line("restarted at 6");
    }
}

// checklist: 67
#[test]
fn what_an_old_leader_kept_writing_is_cut_off_and_the_log_says_so() {
    for settings in both_levels() {
        let brokers = two_with(settings, 1);
        let tip = tip(1, 0);
        apply(&brokers, &[order(tip, 1, 0)]);
        append(&brokers[0].partition(tip), -1, &["a"]);
        settle(&brokers[0], &brokers[1], tip);
        // Broker 2 leads, but broker 1 does not receive the new state.
        brokers[1].apply(&[order(tip, 2, 1)]);
        append(&brokers[0].partition(tip), 1, &["lost", "lost"]);
        append(&brokers[1].partition(tip), -1, &["b"]);
        brokers[0].apply(&[order(tip, 2, 1)]);
        settle(&brokers[1], &brokers[0], tip);
        assert_eq!(brokers[0].bytes(tip), brokers[1].bytes(tip));
        brokers[0].wait_for_line("truncated from 3 to 1");
        let lines = brokers[0].lines();
        let warnings = lines.iter().filter(|line| line.starts_with("Warning"));
        assert_eq!(
            warnings.count(),
            0,
            "nothing was committed there: {lines:?}"
        );
    }
}

#[test]
fn thousands_of_partitions_are_assigned_at_once() {
    let brokers = two();
    let orders: Vec<_> = (0..2_000)
        .map(|partition| order_of(tip(1, partition), 1, 0, FlushMode::Os, &[1, 2]))
        .collect();
    apply(&brokers, &orders);
    let assignments: Vec<_> = orders
        .iter()
        .map(|order| Assignment {
            tip: order.tip,
            leader: 1,
            leader_epoch: 1,
        })
        .collect();
    let before = Instant::now();
    brokers[1]
        .fetchers()
        .set(&[], &assignments)
        .expect("threads");
    assert!(before.elapsed() < Duration::from_millis(500));
    // A repeated order of the same epoch would change nothing; in a new epoch the follower fetches all partitions.
    let orders: Vec<_> = orders
        .into_iter()
        .map(|order| PartitionOrder {
            leader_epoch: 2,
            version: 2,
            ..order
        })
        .collect();
    apply(&brokers, &orders);
    for at in [0, 999, 1_999] {
        append(&brokers[0].partition(tip(1, at)), -1, &["x"]);
    }
    for at in [0, 999, 1_999] {
        settle(&brokers[0], &brokers[1], tip(1, at));
    }
}
