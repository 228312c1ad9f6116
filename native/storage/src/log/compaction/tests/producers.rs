//! Compaction of idempotent and transactional batches.

use super::*;

#[test]
fn producers_keep_their_sequences() {
    let mut f = Fixture::new(config());
    let keyed_by = |producer, sequence, value: &str| {
        let mut builder = BatchBuilder::new(Codec::None).producer(producer, 0, sequence);
        builder.push(NOW, Some(b"k"), Some(value.as_bytes()));
        builder.build().expect("builds")
    };
    for sequence in 0..5 {
        f.append(keyed_by(1, sequence, "one")).expect("appends");
    }
    f.append(keyed_by(2, 0, "two")).expect("appends");
    seal(&f);
    compact(&f, NOW);
    assert_eq!(values(f.log()), ["two"]);
    // Without snapshots, recovery rebuilds the state from the remaining batches.
    f.crash();
    for name in f.files().iter().filter(|name| name.ends_with(".snapshot")) {
        std::fs::remove_file(f.partition().join(name)).expect("removes");
    }
    f.open();
    let again = f.append(keyed_by(1, 4, "one")).expect("a duplicate");
    assert_eq!((again.duplicate, again.base_offset), (true, 4));
    assert_eq!(
        f.append(keyed_by(1, 5, "one"))
            .expect("goes on")
            .base_offset,
        6
    );
}

#[test]
fn transactions_and_their_markers() {
    let mut f = Fixture::new(config());
    let data = |producer, sequence, key: &str, value: &str| {
        let mut builder = BatchBuilder::new(Codec::None)
            .producer(producer, 0, sequence)
            .transactional();
        builder.push(NOW, Some(key.as_bytes()), Some(value.as_bytes()));
        builder.build().expect("builds")
    };
    let marker = |f: &Fixture, producer, kind| {
        let bytes = end_transaction_marker(producer, 0, kind, 0, NOW).expect("builds");
        let batch = ValidBatches::checked_owned(bytes).expect("valid");
        f.log()
            .append_as_leader(batch, 0, AppendOrigin::Coordinator, NOW)
            .expect("appends");
    };
    f.append(keyed(
        Codec::None,
        NOW,
        &[("a", Some("plain")), ("b", Some("plain"))],
    ))
    .expect("appends");
    f.append(data(1, 0, "a", "aborted")).expect("appends");
    f.append(data(2, 0, "b", "committed")).expect("appends");
    seal(&f);
    assert_eq!(
        f.log()
            .cleanable(4, NOW)
            .expect("looks")
            .map(|c| c.end_offset),
        None,
        "open transactions"
    );
    marker(&f, 1, ControlType::Abort);
    marker(&f, 2, ControlType::Commit);
    seal(&f);
    compact(&f, NOW);
    let expected = BTreeMap::from([
        ("a".into(), "plain".into()),
        ("b".into(), "committed".into()),
    ]);
    let control = |f: &Fixture| {
        let mut count = 0;
        let mut offset = f.log().log_start_offset();
        while offset < f.log().log_end_offset() {
            let bytes = f
                .log()
                .read(offset, 1 << 20, i64::MAX, true)
                .expect("reads")
                .to_vec()
                .expect("bytes");
            for batch in Batches::new(&bytes) {
                let (header, _) = batch.expect("a batch");
                offset = header.next_offset();
                count += usize::from(header.is_control());
            }
            if bytes.is_empty() {
                break;
            }
        }
        count
    };
    assert_eq!((table(&f), control(&f)), (expected.clone(), 2));
    assert_eq!(f.log().aborted_transactions(0, 6).expect("reads").len(), 1);
    // The aborted transaction has no data left. Its marker first gets a delete horizon and is removed later.
    for now in [NOW, NOW + 1000, NOW + 2000] {
        f.append(keyed(Codec::None, NOW, &[("c", Some("x"))]))
            .expect("appends");
        seal(&f);
        compact(&f, now);
        f.crash();
        f.open();
    }
    assert_eq!(control(&f), 1, "the committed one still has data");
    assert!(
        f.log()
            .aborted_transactions(0, 9)
            .expect("reads")
            .is_empty()
    );
    let after = BTreeMap::from_iter(
        expected
            .into_iter()
            .chain([("c".to_owned(), "x".to_owned())]),
    );
    assert_eq!(table(&f), after);
}
