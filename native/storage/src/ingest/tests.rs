//! An attach is complete or absent, at whichever step a crash happens.

use super::*;
use crate::AppendOrigin;
use crate::error::AppendError;
use crate::file_names;
use crate::log::{AttachResult, Step};
use crate::staged::{PlannedAttempt, plan};
use crate::testing::{Fixture, NOW, batch, keyed, read_from, values};
use pybroker_model::{Batches, Codec, ValidBatches};

mod copies;
mod direct;
mod replicas;
mod times;
mod trouble;

const INGEST_NAME: &str = "key-1";
const EPOCH: i32 = 0;
/// With this limit, the attach links all files.
const LINK: u64 = 0;
/// With this limit, the attach copies all records.
const COPY: u64 = u64::MAX;

fn staged_bytes(fixture: &Fixture) -> u64 {
    let listed = fixture
        .dir()
        .staged_attempts(fixture.id.topic_id, INGEST_NAME);
    listed.expect("lists").iter().map(|attempt| attempt.3).sum()
}

fn place(fixture: &Fixture) -> StagedPartition {
    fixture.dir().staged_partition(fixture.id, INGEST_NAME)
}

/// Stage batches of one writer. Return their entry in the commit.
fn stage(fixture: &Fixture, writer: i32, batches: &[Vec<u8>]) -> (PlannedAttempt, Arc<Log>) {
    let config = fixture.config.clone();
    let (log, before) = fixture
        .dir()
        .open_staged(&place(fixture), writer, 5, &config, NOW)
        .expect("opens");
    let mut totals = before;
    for bytes in batches {
        let valid = ValidBatches::checked_owned(bytes.clone()).expect("a batch");
        let header = *valid.first();
        totals.add(
            i64::from(header.last_offset_delta) + 1,
            bytes.len() as u64,
            header.crc,
        );
        log.append_as_leader(valid, -1, AppendOrigin::Client, NOW)
            .expect("stages");
    }
    assert_eq!(totals_of(&log).expect("totals"), totals);
    let planned = PlannedAttempt {
        writer,
        attempt: 5,
        rows: totals.rows,
        bytes: totals.bytes,
    };
    (planned, log)
}

fn small_segments() -> LogConfig {
    LogConfig {
        segment_bytes: 400,
        index_interval_bytes: 100,
        ..LogConfig::default()
    }
}

fn texts(prefix: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|i| batch(&[&format!("{prefix}{i}-x"), &format!("{prefix}{i}-y")]))
        .collect()
}

fn expected(prefixes: &[(&str, usize)]) -> Vec<String> {
    prefixes
        .iter()
        .flat_map(|(prefix, count)| {
            (0..*count).flat_map(move |i| [format!("{prefix}{i}-x"), format!("{prefix}{i}-y")])
        })
        .collect()
}

fn seal(fixture: &Fixture, attempts: Vec<(PlannedAttempt, Arc<Log>)>) {
    let listing = Listing {
        place: place(fixture),
        holders: Arc::default(),
        attempts,
    };
    fixture.dir().seal_partitions(&[listing]).expect("seals");
}

/// Seal two writers with several segments each.
fn sealed(fixture: &Fixture) {
    let one = stage(fixture, 1, &texts("a", 9));
    let two = stage(fixture, 2, &texts("b", 7));
    // The commit does not list this attempt, so its records are never attached.
    stage(fixture, 3, &texts("lost", 3));
    seal(fixture, vec![one, two]);
}

/// Return the content of a log with one record, after the records of `sealed` were attached.
fn before_and_sealed() -> Vec<String> {
    let mut all = vec!["before".to_owned()];
    all.extend(expected(&[("a", 9), ("b", 7)]));
    all
}

/// Attach in a process that is killed at `step`.
fn killed_at(
    fixture: &Fixture,
    step: Step,
    copy_bytes_max: u64,
) -> Result<AttachResult, AppendError> {
    fixture.log().attach_until(
        &place(fixture),
        EPOCH,
        TimestampType::CreateTime,
        NOW,
        copy_bytes_max,
        |at| at == step,
    )
}

/// Attach the sealed segments with the topic's own timestamps.
fn attach(fixture: &Fixture, copy_bytes_max: u64) -> Result<AttachResult, AppendError> {
    let place = place(fixture);
    fixture.log().attach(
        &place,
        EPOCH,
        TimestampType::CreateTime,
        NOW,
        copy_bytes_max,
    )
}

fn check_headers(fixture: &Fixture) {
    let log = fixture.log();
    let mut next = log.log_start_offset();
    while next < log.log_end_offset() {
        let bytes = log
            .read(next, 1 << 20, log.log_end_offset(), true)
            .expect("reads")
            .to_vec()
            .expect("bytes");
        for found in Batches::new(&bytes) {
            let (header, bytes) = found.expect("a batch");
            header.check_crc(bytes).expect("checksum");
            assert_eq!(header.base_offset, next);
            assert_eq!(header.partition_leader_epoch, EPOCH);
            next = header.next_offset();
        }
    }
}

#[test]
fn attached_records_are_as_if_they_had_been_appended() {
    let mut fixture = Fixture::new(small_segments());
    fixture.append(batch(&["before"])).expect("appends");
    sealed(&fixture);
    assert_eq!(values(fixture.log()), ["before"], "staged is invisible");
    let attached = attach(&fixture, LINK).expect("attaches");
    assert_eq!(
        attached,
        AttachResult {
            base_offset: 1,
            end_offset: 33,
            repeated: false
        }
    );
    assert_eq!(fixture.log().flushed_end_offset(), 33);
    fixture.append(batch(&["after"])).expect("appends");
    let mut all = before_and_sealed();
    all.push("after".into());
    assert_eq!(values(fixture.log()), all);
    check_headers(&fixture);
    let again = attach(&fixture, LINK).expect("answers");
    assert_eq!((again.base_offset, again.repeated), (1, true));
    for offset in 0..34 {
        let read = read_from(fixture.log(), offset, 100);
        assert_eq!(read[0].0, offset);
        assert_eq!(read.len(), 34 - offset as usize);
    }
    for stop in [false, true] {
        if stop {
            fixture.stop();
        } else {
            fixture.crash();
        }
        fixture.open();
        assert_eq!(values(fixture.log()), all);
        check_headers(&fixture);
    }
    fixture
        .dir()
        .remove_ingest(&fixture.id.topic_id.uuid().to_hex(), INGEST_NAME)
        .expect("removes");
    assert!(!fixture.path().join(INGEST).join("x").exists());
    fixture.crash();
    fixture.open();
    assert_eq!(values(fixture.log()), all);
}

#[test]
fn an_attach_that_is_killed_at_any_step_is_all_or_nothing() {
    let steps = [
        (Step::Patched, false),
        (Step::Rolled, false),
        (Step::Intended, true),
        (Step::LinkedOne, true),
        (Step::Linked, true),
        (Step::Published, true),
        (Step::Flushed, true),
    ];
    for (step, survives) in steps {
        for earlier in [0, 3] {
            let mut fixture = Fixture::new(small_segments());
            for text in texts("old", earlier) {
                fixture.append(text).expect("appends");
            }
            sealed(&fixture);
            let killed = killed_at(&fixture, step, LINK);
            assert!(matches!(killed, Err(AppendError::Storage(_))), "{step:?}");
            fixture.crash();
            fixture.open();
            let all = expected(&[("old", earlier), ("a", 9), ("b", 7)]);
            let now = values(fixture.log());
            if survives {
                assert_eq!(now, all, "{step:?}");
            } else {
                assert_eq!(now, expected(&[("old", earlier)]), "{step:?}");
            }
            // A repeated commit attaches the records once, at whichever step the first one was killed.
            let place = place(&fixture);
            let attached = fixture
                .log()
                .attach(&place, EPOCH, TimestampType::CreateTime, NOW, LINK)
                .expect("attaches");
            assert_eq!(attached.repeated, survives, "{step:?}");
            assert_eq!(attached.base_offset, 2 * earlier as i64, "{step:?}");
            assert_eq!(attached.end_offset, fixture.log().log_end_offset());
            assert_eq!(values(fixture.log()), all, "{step:?}");
            check_headers(&fixture);
            fixture.append(batch(&["after"])).expect("appends");
            fixture.crash();
            fixture.open();
            assert_eq!(values(fixture.log()).len(), all.len() + 1, "{step:?}");
        }
    }
}

#[test]
fn links_that_a_power_cut_took_back_are_made_again() {
    // The intent is on disk, but the log's directory is not synced: any of the names may be missing, and later appends
    // may be present or not.
    for kept in 0..8_u32 {
        for tail in [false, true] {
            let mut fixture = Fixture::new(small_segments());
            fixture.append(batch(&["before"])).expect("appends");
            sealed(&fixture);
            let killed = killed_at(&fixture, Step::Published, LINK);
            assert!(killed.is_err());
            if tail {
                fixture.append(batch(&["after"])).expect("appends");
            }
            fixture.crash();
            let mut linked: Vec<_> = fixture
                .files()
                .into_iter()
                .filter(|name| name.ends_with(LOG) && !name.starts_with("00000000000000000000"))
                .collect();
            if tail {
                linked.pop();
            }
            for (at, name) in linked.iter().enumerate() {
                if kept & (1 << (at % 3)) == 0 {
                    std::fs::remove_file(fixture.partition().join(name)).expect("removes");
                }
            }
            fixture.open();
            let mut all = before_and_sealed();
            if tail {
                all.push("after".into());
            }
            assert_eq!(values(fixture.log()), all, "kept {kept:b}");
            check_headers(&fixture);
        }
    }
}

#[test]
fn what_an_attempt_staged_survives_a_crash_up_to_its_last_whole_batch() {
    let mut fixture = Fixture::new(small_segments());
    let (planned, log) = stage(&fixture, 1, &texts("a", 9));
    let last = log.segments.load().last().expect("a segment").path(LOG);
    drop(log);
    fixture.crash();
    let bytes = std::fs::read(&last).expect("reads");
    std::fs::write(&last, &bytes[..bytes.len() - 5]).expect("cuts");
    fixture.open();
    let (_, totals) = fixture
        .dir()
        .open_staged(&place(&fixture), 1, 5, &fixture.config, NOW)
        .expect("opens");
    assert_eq!(totals.rows, planned.rows - 2);
    let listed = fixture.dir().staged_ingests().expect("lists");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].1, INGEST_NAME);
    assert_eq!(staged_bytes(&fixture), totals.bytes);
}

#[test]
fn appends_go_on_while_an_attach_is_prepared() {
    let fixture = Fixture::new(small_segments());
    sealed(&fixture);
    let log = Arc::clone(fixture.log());
    let place = place(&fixture);
    // Another append happens after the files are patched for the expected offset and before the lock is taken.
    let attached = log
        .attach_until(&place, EPOCH, TimestampType::CreateTime, NOW, LINK, |at| {
            if at == Step::Patched {
                fixture.append(batch(&["between"])).expect("appends");
            }
            false
        })
        .expect("attaches");
    assert_eq!(attached.base_offset, 1);
    check_headers(&fixture);
    let mut all = vec!["between".to_owned()];
    all.extend(expected(&[("a", 9), ("b", 7)]));
    assert_eq!(values(&log), all);
}

#[test]
fn nothing_staged_attaches_nothing() {
    let fixture = Fixture::new(small_segments());
    std::fs::create_dir_all(place(&fixture).path()).expect("makes");
    seal(&fixture, Vec::new());
    let attached = attach(&fixture, LINK).expect("attaches");
    assert_eq!((attached.base_offset, attached.end_offset), (0, 0));
}

#[test]
fn a_flush_that_comes_after_the_removal_harms_nobody() {
    let fixture = Fixture::new(small_segments());
    let (_, log) = stage(&fixture, 1, &texts("a", 9));
    log.discard();
    for segment in log.segments.load().iter() {
        segment.forget();
    }
    let hex = fixture.id.topic_id.uuid().to_hex();
    fixture
        .dir()
        .remove_ingest(&hex, INGEST_NAME)
        .expect("removes");
    assert!(matches!(log.flush(), Err(StorageError::Closed { .. })));
    fixture.dir().check().expect("still online");
    fixture.append(batch(&["goes on"])).expect("appends");
}
