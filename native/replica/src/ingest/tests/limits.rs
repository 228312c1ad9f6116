//! Limits on the number of attempts, and syncs of many attempts.

use super::*;

#[test]
fn attempts_have_a_limit_over_all_ingests() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let id = TopicId::random();
    let partition = lead(&host, &order(id, 0, 0));
    let (one, two) = (new(id, 1), new(TopicId::random(), 1));
    let two = NewIngest {
        name: IngestName {
            topic_id: id,
            ingest_id: "two".into(),
            batch_id: -1,
        },
        directory: "e-1".into(),
        ..two
    };
    let ingests = host.replicas.ingests();
    ingests.set_limits(IngestLimits {
        attempts_max: 2,
        ..IngestLimits::default()
    });
    let stage = |ingest: &NewIngest, attempt, sequence| {
        host.replicas.stage_records(
            &ingest.name,
            1,
            0,
            attempt,
            &partition,
            sequence,
            &mut batch(&["a"]),
            NOW,
        )
    };
    for ingest in [&one, &two] {
        host.replicas
            .open_ingest(ingest.clone(), NOW)
            .expect("opens");
        assert_eq!(stage(ingest, 1, 0), Ok(1));
    }
    for ingest in [&one, &two] {
        let refused = stage(ingest, 2, 0);
        assert!(matches!(refused, Err(IngestError::Throttled { .. })));
        assert_eq!(stage(ingest, 1, 1), Ok(2), "those that are there go on");
    }
    assert_eq!(ingests.figures().attempts, 2);
    assert!(
        !temp
            .path()
            .join(id.uuid().to_hex())
            .join("d-1/p0/0-2")
            .exists()
    );
    host.replicas.drop_ingest(&two.name, "e-1").expect("drops");
    assert_eq!(stage(&one, 2, 0), Ok(1), "there is room again");
    host.replicas.drop_ingest(&one.name, "d-1").expect("drops");
    assert_eq!(ingests.figures().attempts, 0);
}

#[test]
fn of_many_attempts_all_are_synced_also_those_whose_last_batch_is_bad() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let id = TopicId::random();
    let partition = lead(&host, &order(id, 0, 0));
    let ingest = new(id, 1);
    host.replicas
        .open_ingest(ingest.clone(), NOW)
        .expect("opens");
    let good = batch(&["a"]);
    let mut bad = good.clone();
    *bad.last_mut().expect("bytes") ^= 1;
    let data = [good, bad].concat();
    let last = 600;
    for attempt in 0..=last {
        let mut data = data.clone();
        let staged =
            host.replicas
                .stage_records(&ingest.name, 1, 0, attempt, &partition, 0, &mut data, NOW);
        let refused = matches!(
            staged,
            Err(IngestError::Partition(PartitionError::Batch(_)))
        );
        assert!(refused, "{staged:?}");
    }
    let opened = host.replicas.ingests.get(&ingest.name, 1).expect("open");
    let attempts = opened.attempts.lock();
    let staged = attempts[&(0, 0, last)].staged.lock();
    let log = Arc::clone(&staged.as_ref().expect("opened").log);
    assert_eq!(log.log_end_offset(), 1, "what stands before it is staged");
    // Files that are not synced stay open, even beyond the limit on open files.
    let deadline = std::time::Instant::now() + crate::tests::WAIT;
    while log.flushed_end_offset() < 1 {
        assert!(std::time::Instant::now() < deadline, "never synced");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
