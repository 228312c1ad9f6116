//! Timestamps of attached records follow the topic's timestamp type when the ingest began, even if the type has changed
//! since.

use super::*;

#[test]
fn an_ingest_with_log_append_time_stamps_what_is_attached() {
    // The log's timestamp type has changed since the ingest began.
    let mut fixture = Fixture::new(small_segments());
    sealed(&fixture);
    let later = NOW + 5_000;
    let log = Arc::clone(fixture.log());
    assert!(
        log.attach_until(
            &place(&fixture),
            EPOCH,
            TimestampType::LogAppendTime,
            later,
            LINK,
            |at| at == Step::LinkedOne
        )
        .is_err()
    );
    drop(log);
    fixture.crash();
    fixture.open();
    check_headers(&fixture);
    let log = fixture.log();
    let bytes = log
        .read(0, 1 << 20, log.log_end_offset(), true)
        .expect("reads")
        .to_vec()
        .expect("bytes");
    for found in Batches::new(&bytes) {
        let (header, _) = found.expect("a batch");
        assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!(header.max_timestamp, later);
    }
    let end = log.log_end_offset();
    let found = log.offset_for_timestamp(later, end).expect("looks");
    assert_eq!(found.map(|found| found.offset), Some(0));
    assert_eq!(
        log.offset_for_timestamp(later + 1, end).expect("looks"),
        None
    );
}

#[test]
fn an_ingest_with_create_time_keeps_its_times_whatever_the_log_is_set_to_by_now() {
    for limit in [LINK, COPY] {
        let mut config = small_segments();
        config.timestamp_type = TimestampType::LogAppendTime;
        let fixture = Fixture::new(config);
        sealed(&fixture);
        let log = fixture.log();
        log.attach(
            &place(&fixture),
            EPOCH,
            TimestampType::CreateTime,
            NOW + 5_000,
            limit,
        )
        .expect("attaches");
        check_headers(&fixture);
        let bytes = log
            .read(0, 1 << 20, log.log_end_offset(), true)
            .expect("reads")
            .to_vec()
            .expect("bytes");
        for found in Batches::new(&bytes) {
            let (header, _) = found.expect("a batch");
            assert_eq!(header.timestamp_type(), TimestampType::CreateTime);
            assert_eq!(header.max_timestamp, NOW);
        }
    }
}

#[test]
fn timestamps_retention_and_compaction_see_attached_segments_as_any_other() {
    let mut config = small_segments();
    config.cleanup_policy = CleanupPolicy {
        delete: true,
        compact: true,
    };
    config.retention_ms = 10_000;
    let mut fixture = Fixture::new(config);
    let batches: Vec<_> = (0..10)
        .map(|i| keyed(Codec::None, NOW + i * 1_000, &[("k", Some(&i.to_string()))]))
        .collect();
    let one = stage(&fixture, 1, &batches);
    seal(&fixture, vec![one]);
    attach(&fixture, LINK).expect("attaches");
    let log = fixture.log();
    for i in 0..10 {
        let found = log
            .offset_for_timestamp(NOW + i * 1_000, 10)
            .expect("looks")
            .expect("is there");
        assert_eq!(found.offset, i);
    }
    let retained = log.apply_retention(10, NOW + 15_500).expect("retains");
    assert!(retained.segments >= 1, "{retained:?}");
    let start = log.log_start_offset();
    assert!(start > 0);
    assert!(
        staged_bytes(&fixture) > 0,
        "the staged files are links of their own"
    );
    fixture.crash();
    fixture.open();
    assert_eq!(fixture.log().log_end_offset(), 10);
    assert_eq!(fixture.log().log_start_offset(), start);
}
