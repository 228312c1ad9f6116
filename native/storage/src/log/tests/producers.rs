//! Idempotent producers and transactions across restarts.

use super::*;

#[test]
fn idempotent_producers_across_restarts() {
    let mut f = Fixture::new(LogConfig::default());
    for sequence in 0..7 {
        f.append(sequenced(1, 0, sequence, 1)).expect("appends");
    }
    for restart in 0..4 {
        for sequence in 2..7 {
            let again = f.append(sequenced(1, 0, sequence, 1)).expect("a duplicate");
            assert_eq!(
                (again.base_offset, again.duplicate),
                (i64::from(sequence), true),
                "restart {restart}"
            );
        }
        assert!(matches!(
            f.append(sequenced(1, 0, 9, 1)),
            Err(AppendError::OutOfOrderSequence { .. })
        ));
        match restart {
            0 => f.stop(),
            1 => f.crash(),
            2 => {
                f.dir()
                    .checkpoint(&[Arc::clone(f.log())])
                    .expect("checkpoints");
                f.crash();
            }
            _ => break,
        }
        f.open();
    }
    assert_eq!(f.log().log_end_offset(), 7);
}

#[test]
fn transactions_are_bounded_indexed_and_recovered() {
    let mut f = Fixture::new(LogConfig::default());
    let transactional = |producer, sequence| {
        let mut builder = BatchBuilder::new(Codec::None)
            .producer(producer, 0, sequence)
            .transactional();
        builder.push(NOW, None, Some(b"t"));
        builder.build().expect("builds")
    };
    let marker = |f: &Fixture, producer, kind, epoch| {
        let bytes = end_transaction_marker(producer, 0, kind, epoch, NOW).expect("builds");
        let batch = ValidBatches::checked_owned(bytes).expect("valid");
        f.log()
            .append_as_leader(batch, 0, AppendOrigin::Coordinator, NOW)
    };
    f.append(batch(&["plain"])).expect("appends");
    f.append(transactional(1, 0)).expect("appends");
    f.append(transactional(2, 0)).expect("appends");
    assert!(matches!(
        f.append(sequenced(1, 0, 1, 1)),
        Err(AppendError::InvalidTxnState { .. })
    ));
    for round in 0..3 {
        assert_eq!(f.log().last_stable_offset(3), 1, "round {round}");
        assert_eq!(f.log().open_transactions(), [(1, 1), (2, 2)]);
        match round {
            0 => f.crash(),
            1 => f.stop(),
            _ => break,
        }
        f.open();
    }
    marker(&f, 1, ControlType::Abort, 0).expect("appends");
    assert_eq!(f.log().last_stable_offset(4), 2);
    marker(&f, 2, ControlType::Commit, 3).expect("appends");
    assert_eq!(f.log().last_stable_offset(5), 5);
    assert!(matches!(
        marker(&f, 2, ControlType::Commit, 2),
        Err(AppendError::CoordinatorFenced { .. })
    ));
    for round in 0..4 {
        let aborted = f.log().aborted_transactions(0, 5).expect("reads");
        assert_eq!(
            aborted
                .iter()
                .map(|a| (a.producer_id, a.first_offset, a.last_offset))
                .collect::<Vec<_>>(),
            [(1, 1, 3)]
        );
        assert!(
            f.log()
                .aborted_transactions(4, 5)
                .expect("reads")
                .is_empty()
        );
        match round {
            0 => f.crash(),
            1 => f.stop(),
            2 => {
                f.crash();
                std::fs::write(
                    f.partition().join("00000000000000000000.txnindex"),
                    b"garbage",
                )
                .expect("writes");
            }
            _ => break,
        }
        f.open();
    }
}

#[test]
fn a_transaction_begins_only_where_its_coordinator_was_asked() {
    let f = Fixture::new(LogConfig::default());
    let transactional = |sequence, origin| {
        let mut builder = BatchBuilder::new(Codec::None)
            .producer(1, 0, sequence)
            .transactional();
        builder.push(NOW, None, Some(b"t"));
        let bytes = builder.build().expect("builds");
        let batch = ValidBatches::checked_owned(bytes).expect("valid");
        f.log().append_as_leader(batch, 0, origin, NOW)
    };
    let refused = |result| matches!(result, Err(AppendError::InvalidTxnState { .. }));
    assert!(!f.log().is_in_transaction(1, 0));
    assert!(refused(transactional(0, AppendOrigin::Client)));
    let asked = AppendOrigin::Verified(f.log().log_end_offset());
    transactional(0, asked).expect("appends");
    assert!(f.log().is_in_transaction(1, 0) && !f.log().is_in_transaction(1, 1));
    transactional(1, AppendOrigin::Client).expect("it is open");
    let bytes = end_transaction_marker(1, 0, ControlType::Abort, 0, NOW).expect("builds");
    let marker = ValidBatches::checked_owned(bytes).expect("valid");
    f.log()
        .append_as_leader(marker, 0, AppendOrigin::Coordinator, NOW)
        .expect("appends");
    // The coordinator confirmed this batch before the transaction ended, but the confirmation arrives after the end.
    assert!(refused(transactional(2, asked)));
    assert_eq!(f.log().open_transactions(), []);
    let asked = AppendOrigin::Verified(f.log().log_end_offset());
    transactional(2, asked).expect("another one begins");
}

/// In KIP-890's version 2 each transaction has its own epoch, and its end marker raises the epoch.
#[test]
fn a_transaction_of_version_2_begins_with_sequence_0_and_is_ended_once() {
    let f = Fixture::new(LogConfig::default());
    let write = |producer, epoch, sequence, origin| {
        let mut builder = BatchBuilder::new(Codec::None)
            .producer(producer, epoch, sequence)
            .transactional();
        builder.push(NOW, None, Some(b"t"));
        let bytes = builder.build().expect("builds");
        let batch = ValidBatches::checked_owned(bytes).expect("valid");
        f.log().append_as_leader(batch, 0, origin, NOW)
    };
    let added = || AppendOrigin::Added(f.log().log_end_offset());
    let end = |epoch| {
        let bytes = end_transaction_marker(1, epoch, ControlType::Commit, 0, NOW).expect("builds");
        let marker = ValidBatches::checked_owned(bytes).expect("valid");
        f.log()
            .append_as_leader(marker, 0, AppendOrigin::Raised, NOW)
    };
    let gap = |result| matches!(result, Err(AppendError::OutOfOrderSequence { .. }));
    write(2, 0, 0, added()).expect("appends");
    // An earlier batch is still in transit: the log has records, but no state of this producer.
    assert!(gap(write(1, 0, 1, added())));
    write(1, 0, 0, added()).expect("appends");
    write(1, 0, 1, AppendOrigin::Client).expect("it is open");
    let refused = end(0);
    assert!(matches!(
        refused,
        Err(AppendError::InvalidProducerEpoch { .. })
    ));
    end(1).expect("ends");
    end(1).expect("the answer was lost");
    assert!(gap(write(1, 1, 1, added())));
    write(1, 1, 0, added()).expect("another one begins");
    // The log refuses a late duplicate of the marker.
    assert!(end(1).is_err());
    assert_eq!(f.log().open_transactions().len(), 2);
    // The coordinator is asked before the previous transaction's marker arrives, and confirms after it.
    let asked = added();
    end(2).expect("ends");
    write(1, 2, 0, asked).expect("begins");
    end(3).expect("ends");
}

/// A client uses a new producer id for each batch. The log remembers the latest ids, and all open transactions.
#[test]
fn producers_are_bounded_and_open_transactions_are_kept() {
    const MAX: usize = 64;
    let mut f = Fixture::new(LogConfig {
        producer_ids_per_partition_max: MAX,
        ..LogConfig::default()
    });
    let mut builder = BatchBuilder::new(Codec::None)
        .producer(1, 0, 0)
        .transactional();
    builder.push(NOW, None, Some(b"t"));
    f.append(builder.build().expect("builds")).expect("appends");
    for producer in 1_000..2_000 {
        f.append(sequenced(producer, 0, 0, 1)).expect("appends");
        f.append(sequenced(2, 0, (producer - 1_000) as i32, 1))
            .expect("an honest producer goes on");
    }
    for round in 0..3 {
        let known = f.log().producers();
        assert!(known.len() <= MAX, "round {round}: {}", known.len());
        let ids: Vec<i64> = known.iter().map(|producer| producer.producer_id).collect();
        assert!(ids.contains(&1) && ids.contains(&2) && ids.contains(&1_999));
        assert!(!ids.contains(&1_000), "the oldest went");
        assert_eq!(f.log().open_transactions(), [(0, 1)]);
        assert!(f.append(sequenced(2, 0, 999, 1)).expect("known").duplicate);
        assert_eq!(f.dir().producers().known(), known.len());
        match round {
            0 => {
                assert!(f.dir().producers().dropped() >= 1_002 - MAX as u64);
                f.stop();
            }
            1 => {
                // Recovery reads the whole log.
                f.crash();
                std::fs::remove_file(f.partition().join("00000000000000002001.snapshot"))
                    .expect("there is one");
            }
            _ => break,
        }
        f.open();
    }
    let log = f.log.take();
    drop(log);
    assert_eq!(f.dir().producers().known(), 0, "closed logs do not count");
}

#[test]
fn a_log_of_open_transactions_only_takes_no_other_producer() {
    const MAX: usize = 8;
    let f = Fixture::new(LogConfig {
        producer_ids_per_partition_max: MAX,
        ..LogConfig::default()
    });
    let transactional = |producer| {
        let mut builder = BatchBuilder::new(Codec::None)
            .producer(producer, 0, 0)
            .transactional();
        builder.push(NOW, None, Some(b"t"));
        f.append(builder.build().expect("builds"))
    };
    for producer in 0..MAX as i64 {
        transactional(producer).expect("appends");
    }
    let refused = |result| matches!(result, Err(AppendError::TooManyProducers { limit: MAX }));
    assert!(refused(transactional(100)));
    assert!(refused(f.append(sequenced(101, 0, 0, 1))));
    f.append(batch(&["plain"])).expect("no producer id");
    assert_eq!(f.log().open_transactions().len(), MAX);
    let bytes = end_transaction_marker(3, 0, ControlType::Commit, 0, NOW).expect("builds");
    let marker = ValidBatches::checked_owned(bytes).expect("valid");
    f.log()
        .append_as_leader(marker, 0, AppendOrigin::Coordinator, NOW)
        .expect("appends");
    transactional(100).expect("there is room again");
    assert_eq!(f.log().producers().len(), MAX);
}

/// Even if other logs use up the common limit, a log may remember some producers.
#[test]
fn all_logs_together_are_bounded() {
    let f = Fixture::new(LogConfig {
        producer_ids_max: 300,
        ..LogConfig::default()
    });
    for producer in 0..2_000 {
        f.append(sequenced(producer, 0, 0, 1)).expect("appends");
    }
    let known = f.log().producers().len();
    assert!((100..=301).contains(&known), "{known}");
    assert_eq!(f.dir().producers().known(), known);
}
