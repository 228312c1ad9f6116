//! Small commits, which are copied instead of linked.

use super::*;

#[test]
fn a_small_commit_goes_to_the_end_of_the_active_segment_all_or_nothing() {
    for (step, survives) in [
        (Step::Patched, false),
        (Step::Intended, false),
        (Step::Published, true),
        (Step::Flushed, true),
    ] {
        for kind in [TimestampType::CreateTime, TimestampType::LogAppendTime] {
            let config = LogConfig {
                timestamp_type: kind,
                ..LogConfig::default()
            };
            let mut fixture = Fixture::new(config);
            fixture.append(batch(&["before"])).expect("appends");
            sealed(&fixture);
            let killed = killed_at(&fixture, step, COPY);
            assert!(killed.is_err(), "{step:?}");
            fixture.crash();
            fixture.open();
            let mut all = vec!["before".to_owned()];
            if !survives {
                assert_eq!(values(fixture.log()), all, "{step:?}");
            }
            all.extend(expected(&[("a", 9), ("b", 7)]));
            let place = place(&fixture);
            let attached =
                fixture
                    .log()
                    .attach(&place, EPOCH, TimestampType::CreateTime, NOW, COPY);
            let attached = attached.expect("attaches");
            assert_eq!(attached.repeated, survives, "{step:?}");
            assert_eq!((attached.base_offset, attached.end_offset), (1, 33));
            assert_eq!(values(fixture.log()), all, "{step:?}");
            assert_eq!(fixture.log().segment_count(), 1);
            check_headers(&fixture);
        }
    }
}

#[test]
fn a_copy_that_a_power_cut_has_torn_is_taken_out_and_made_again() {
    let whole = {
        let fixture = Fixture::new(LogConfig::default());
        fixture.append(batch(&["before"])).expect("appends");
        fixture.log().size_bytes()
    };
    for lost in [1, 70, 200, 400] {
        let mut fixture = Fixture::new(LogConfig::default());
        fixture.append(batch(&["before"])).expect("appends");
        sealed(&fixture);
        let log = Arc::clone(fixture.log());
        let killed = killed_at(&fixture, Step::Published, COPY);
        assert!(killed.is_err());
        let (path, size) = (log.segments.load()[0].path(LOG), log.size_bytes());
        assert!(size - lost > whole);
        drop(log);
        fixture.crash();
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        file.expect("opens").set_len(size - lost).expect("cuts");
        fixture.open();
        assert_eq!(values(fixture.log()), ["before"], "lost {lost}");
        let place = place(&fixture);
        let attached = fixture
            .log()
            .attach(&place, EPOCH, TimestampType::CreateTime, NOW, COPY);
        assert!(!attached.expect("attaches").repeated);
        let all = before_and_sealed();
        assert_eq!(values(fixture.log()), all);
        check_headers(&fixture);
    }
}
