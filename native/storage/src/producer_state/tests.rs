use super::*;
use pybroker_model::{BatchBuilder, Codec};

fn header(id: i64, epoch: i16, sequence: i32, count: usize, base_offset: i64) -> BatchHeader {
    let mut builder = BatchBuilder::new(Codec::None)
        .producer(id, epoch, sequence)
        .base_offset(base_offset);
    for _ in 0..count {
        builder.push(1, None, None);
    }
    BatchHeader::parse(&builder.build().expect("builds")).expect("parses")
}

struct Fixture {
    state: ProducerState,
    transactions: Transactions,
    end: i64,
}

impl Fixture {
    fn new() -> Self {
        Self {
            state: ProducerState::default(),
            transactions: Transactions::default(),
            end: 0,
        }
    }

    fn try_append(
        &mut self,
        epoch: i16,
        sequence: i32,
        count: usize,
    ) -> Result<Check, AppendError> {
        let header = header(7, epoch, sequence, count, self.end);
        let check = self.state.check(&header, AppendOrigin::Client)?;
        if check == Check::Fresh {
            self.state.appended(&header, 5, &mut self.transactions);
            self.end = header.next_offset();
        }
        Ok(check)
    }
}

#[test]
fn sequences_follow_each_other() {
    let mut log = Fixture::new();
    assert!(!log.state.expects_next(7, 0));
    assert_eq!(log.try_append(0, 0, 3).expect("first"), Check::Fresh);
    assert!(log.state.expects_next(7, 0) && !log.state.expects_next(7, 1));
    assert_eq!(log.try_append(0, 3, 2).expect("next"), Check::Fresh);
    let Ok(Check::Duplicate(batch)) = log.try_append(0, 0, 3) else {
        panic!("a duplicate")
    };
    assert_eq!(batch.first_offset(), 0);
    assert!(matches!(
        log.try_append(0, 6, 1),
        Err(AppendError::OutOfOrderSequence { last: 4, .. })
    ));
    assert!(
        matches!(
            log.try_append(0, 0, 2),
            Err(AppendError::OutOfOrderSequence { .. })
        ),
        "another length"
    );
    assert!(
        matches!(
            log.try_append(1, 5, 1),
            Err(AppendError::OutOfOrderSequence { .. })
        ),
        "new epoch starts at 0"
    );
    assert_eq!(log.try_append(1, 0, 1).expect("new epoch"), Check::Fresh);
    assert!(matches!(
        log.try_append(0, 5, 1),
        Err(AppendError::InvalidProducerEpoch { current: 1, .. })
    ));
}

#[test]
fn five_batches_are_remembered_also_by_a_snapshot() {
    let mut log = Fixture::new();
    for sequence in 0..7 {
        log.try_append(0, sequence, 1).expect("in order");
    }
    let state = snapshot::read(&snapshot::write(&log.state)).expect("reads");
    for known in [&log.state, &state] {
        for sequence in 0..7 {
            let result = known.check(&header(7, 0, sequence, 1, 9), AppendOrigin::Client);
            assert_eq!(
                matches!(result, Ok(Check::Duplicate(_))),
                sequence >= 2,
                "{sequence}"
            );
        }
    }
}

#[test]
fn sequences_wrap() {
    let mut log = Fixture::new();
    assert_eq!(
        log.try_append(0, i32::MAX - 1, 4)
            .expect("an unknown producer begins with any sequence"),
        Check::Fresh
    );
    assert_eq!(log.try_append(0, 2, 1).expect("wrapped to 1"), Check::Fresh);
    assert!(matches!(
        log.try_append(0, i32::MAX - 1, 4),
        Ok(Check::Duplicate(_))
    ));
}

#[test]
fn snapshots_refuse_every_bit_flip() {
    let mut log = Fixture::new();
    for sequence in 0..3 {
        log.try_append(0, sequence, 1).expect("in order");
    }
    let good = snapshot::write(&log.state);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(snapshot::read(&bad).is_none(), "bit {bit}");
    }
    for cut in 0..good.len() {
        assert!(snapshot::read(&good[..cut]).is_none(), "cut at {cut}");
    }
}

#[test]
fn transactions_hold_the_stable_offset_back() {
    let mut state = ProducerState::default();
    let mut open = Transactions::default();
    let data = |id, offset| {
        let mut h = header(id, 0, 0, 1, offset);
        h.attributes |= 0x10;
        h
    };
    state.appended(&data(1, 10), 5, &mut open);
    state.appended(&data(2, 20), 5, &mut open);
    assert_eq!(open.first_unstable(100), Some(10));
    let marker = |id, offset| {
        let mut h = header(id, 0, -1, 1, offset);
        h.attributes |= 0x30;
        h
    };
    let aborted = state.marker_appended(&marker(1, 30), ControlType::Abort, 0, 5, &mut open);
    assert_eq!(
        aborted.map(|a| (a.first_offset, a.last_offset, a.last_stable_offset)),
        Some((10, 30, 20))
    );
    assert_eq!(
        open.first_unstable(30),
        Some(10),
        "the marker is not replicated"
    );
    assert_eq!(open.first_unstable(31), Some(20));
    assert_eq!(
        state.marker_appended(&marker(2, 31), ControlType::Commit, 1, 5, &mut open),
        None
    );
    assert_eq!(open.first_unstable(32), None);
    assert!(open.is_empty());
    assert!(matches!(
        state.check_marker(&marker(2, 32), 0, AppendOrigin::Coordinator),
        Err(AppendError::CoordinatorFenced { current: 1, .. })
    ));
    assert_eq!(
        state.marker_appended(&marker(2, 33), ControlType::Abort, 1, 5, &mut open),
        None,
        "no data, no abort"
    );
}

#[test]
fn idle_producers_are_forgotten() {
    let mut log = Fixture::new();
    log.try_append(0, 0, 1).expect("first");
    log.state.expire(100, 200);
    assert_eq!(log.state.len(), 1);
    log.state.expire(300, 200);
    assert_eq!(log.state.len(), 0);
}

/// A producer that keeps running while its topic is created again must continue its exact sequence in the new log.
#[test]
fn a_producer_goes_on_in_the_next_log_of_the_name() {
    let mut old = Fixture::new();
    for (sequence, count) in [(0, 3), (3, 2), (5, 1)] {
        old.try_append(0, sequence, count).expect("appends");
    }
    // Sequences 3 and 5 may be retries after lost acknowledgements, and 6 is the next one. Any other sequence would
    // hide a loss.
    for (epoch, sequence, good) in [
        (0, 6, true),
        (0, 5, true),
        (0, 3, true),
        (0, 0, true),
        (0, 7, false),
        (0, 4, false),
        (1, 6, false),
        (1, 0, true),
    ] {
        let mut new = Fixture::new();
        new.state.inherit(old.state.legacy());
        assert_eq!(
            new.try_append(epoch, sequence, 2).is_ok(),
            good,
            "{epoch} {sequence}"
        );
        if good {
            assert_eq!(
                new.try_append(epoch, sequence + 2, 1).expect("next"),
                Check::Fresh
            );
            assert!(new.try_append(epoch, sequence + 9, 1).is_err());
        }
    }
    let mut unused = Fixture::new();
    unused.state.inherit(old.state.legacy());
    let mut third = Fixture::new();
    third.state.inherit(unused.state.legacy());
    assert!(third.try_append(0, 6, 1).is_ok(), "created again unused");
}
