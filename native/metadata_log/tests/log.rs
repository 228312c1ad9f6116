//! Appends, reads, truncations, snapshots and recovery in a real directory.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use pybroker_metadata_log::{
    DIRECTORY, Directory, EncodeContext, Endpoint, LogOptions, MetadataLog, offline, record_values,
};
use pybroker_model::Uuid;
use pybroker_quorum::{Batch, Body, EpochEnd, QuorumState, VoterSet};
use support::{OPTIONS, append, batch, contents, data, flush, format, key, open, refused, voters};

fn directory() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join(DIRECTORY);
    (root, path)
}

/// A log with a first leader's initial records and twenty batches of data.
fn filled(path: &Path) -> MetadataLog<Directory> {
    format(path);
    let (mut log, _) = open(path);
    let state = QuorumState {
        epoch: 1,
        ..QuorumState::default()
    };
    log.state_write(state).run().expect("a state");
    let id = Uuid::from_u128(77);
    let controls = [
        batch(0, 1, 1, Body::LeaderChange(key(1))),
        batch(1, 1, 1, Body::Voters(voters())),
        batch(2, 1, 1, Body::TopicId(id)),
    ];
    append(&mut log, &controls).expect("appended");
    let mut end = 3;
    for records in [1, 2, 3, 4, 5].repeat(4) {
        append(&mut log, &[data(end, 1, records)]).expect("appended");
        end += i64::from(records);
        flush(&mut log).expect("flushed");
    }
    log
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("a directory");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    found.retain(|path| path.extension().is_some_and(|suffix| suffix == "log"));
    found.sort();
    found
}

fn damage(path: &Path, position: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[position] ^= 1;
    fs::write(path, bytes).expect("written");
}

fn last_epoch_end(batches: &[Batch<Bytes>]) -> EpochEnd {
    let last = batches.last().expect("a batch");
    EpochEnd {
        epoch: last.epoch,
        offset: last.end_offset(),
    }
}

#[test]
fn start_finds_what_was_written() {
    let (_root, path) = directory();
    let log = filled(&path);
    let before = contents(&log);
    assert!(segments(&path).len() > 2);
    drop(log);

    let (log, found) = open(&path);
    assert_eq!(contents(&log), before);
    assert_eq!(found.index.last(), last_epoch_end(&before));
    assert_eq!(found.index.voters(), &voters());
    assert_eq!(found.index.topic_id(), Some((2, Uuid::from_u128(77))));
    assert_eq!(found.state.epoch, 1);
    assert_eq!(found.notes, Vec::<String>::new());
    let Body::Data(records) = &before[4].body else {
        panic!("{:?}", before[4]);
    };
    let values = record_values(records).expect("records");
    assert_eq!(values, ["record 4+0 of epoch 1", "record 4+1 of epoch 1"]);
}

#[test]
fn follower_stores_the_leaders_bytes() {
    let (_root, path) = directory();
    let leader = filled(&path);
    let (_other_root, other) = directory();
    format(&other);
    let (mut follower, _) = open(&other);
    for batch in contents(&leader) {
        append(&mut follower, &[batch]).expect("appended");
    }
    let bytes = |path: &Path| -> Vec<u8> {
        let parts = segments(path)
            .into_iter()
            .map(|path| fs::read(path).expect("a file"));
        parts.flatten().collect()
    };
    assert_eq!(bytes(&path), bytes(&other));
}

#[test]
fn reads_stop_at_their_bounds() {
    let (_root, path) = directory();
    let log = filled(&path);
    let all = contents(&log);
    let read = |from, to, max| {
        let bytes = log.read(from, to, max).expect("bytes");
        pybroker_metadata_log::decode_batches(&bytes).expect("batches")
    };
    for (index, batch) in all.iter().enumerate() {
        assert_eq!(read(batch.base_offset, i64::MAX, 1), &all[index..=index]);
        assert_eq!(read(batch.base_offset, batch.base_offset, 1), []);
        let two = read(batch.base_offset, batch.end_offset(), 1 << 20);
        assert_eq!(two, &all[index..=index]);
    }
    assert_eq!(read(log.end_offset(), i64::MAX, 1), []);
}

#[test]
fn truncation_removes_segments() {
    let (_root, path) = directory();
    let mut log = filled(&path);
    let all = contents(&log);
    for kept in [20, 12, 11, 4, 0] {
        let end = all.get(kept).map_or(0, |batch| batch.base_offset);
        log.truncate(end).expect("cut off");
        assert_eq!(log.end_offset(), end);
        assert_eq!(contents(&log), &all[..kept]);
        drop(log);
        (log, _) = open(&path);
        assert_eq!(contents(&log), &all[..kept]);
    }
    assert_eq!(segments(&path).len(), 1);
    append(&mut log, &[data(0, 1, 3)]).expect("appended");
}

#[test]
fn torn_tail_is_cut_off() {
    let (_root, path) = directory();
    let mut log = filled(&path);
    let end = log.end_offset();
    let before = contents(&log);
    append(&mut log, &[data(end, 1, 1)]).expect("appended");
    let size = |path: &Path| fs::metadata(path).expect("a file").len();
    let last = segments(&path).pop().expect("a segment");
    let whole = size(&last);
    for lost in [1, 30, 70] {
        let file = fs::File::options().write(true).open(&last).expect("a file");
        file.set_len(whole - lost).expect("cut off");
        drop(log);
        let found;
        (log, found) = open(&path);
        assert_eq!(contents(&log), before, "{lost} bytes lost");
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
        assert!(
            found.notes[0].contains("incomplete write"),
            "{:?}",
            found.notes
        );
        append(&mut log, &[data(end, 1, 1)]).expect("appended");
    }
}

#[test]
fn bytes_after_the_last_flush_may_be_anything() {
    let (_root, path) = directory();
    let log = filled(&path);
    let before = contents(&log);
    drop(log);
    let last = segments(&path).pop().expect("a segment");
    let mut bytes = fs::read(&last).expect("a file");
    for garbage in [vec![0; 300], vec![7; 20], vec![0xff; 5000]] {
        let mut longer = bytes.clone();
        longer.extend(garbage);
        fs::write(&last, longer).expect("written");
        let (log, found) = open(&path);
        assert_eq!(contents(&log), before);
        assert_eq!(found.notes.len(), 1);
        bytes = fs::read(&last).expect("a file");
    }
}

#[test]
fn damage_in_what_was_on_disk_is_refused() {
    let (_root, path) = directory();
    drop(filled(&path));
    let all = segments(&path);
    for (place, file) in all.iter().enumerate() {
        let size = fs::metadata(file).expect("a file").len() as usize;
        // Flip bits in the offset, length, epoch, checksum, and the first and last byte of the records.
        for position in [7, 10, 15, 20, 70, size - 1] {
            damage(file, position);
            let error = refused(&path);
            let name = file.file_name().expect("a name").to_string_lossy();
            assert!(error.contains(&*name), "{error}");
            let reason = match place + 1 == all.len() {
                true => "had been on disk up to offset 63",
                false => "a later segment exists",
            };
            assert!(error.contains(reason), "{error}");
            assert!(error.contains("Restore the directory"), "{error}");
            damage(file, position);
        }
    }
    open(&path);
}

#[test]
fn damage_before_later_flushes_is_refused_after_a_power_loss() {
    let (_root, path) = directory();
    format(&path);
    let open = || {
        let files = Directory::open(&path).expect("a directory");
        MetadataLog::open(files, LogOptions::default())
    };
    let (mut log, _) = open().expect("a log");
    let state = QuorumState {
        epoch: 1,
        ..QuorumState::default()
    };
    log.state_write(state).run().expect("a state");
    for base in 0..40 {
        let value = vec![7; 100_000];
        let records = pybroker_metadata_log::encode_records([&value[..]], 1, 1).expect("records");
        append(&mut log, &[batch(base, 1, 1, Body::Data(records))]).expect("appended");
    }
    drop(log);
    // Remove `flushed-offset`: the rest of the log is then newer than this file says.
    fs::remove_file(path.join("flushed-offset")).expect("removed");
    let last = segments(&path).pop().expect("a segment");
    damage(&last, 500_000);
    let error = open().expect_err("damaged").to_string();
    assert!(
        error.contains("was written when this had been on disk"),
        "{error}"
    );
    damage(&last, 500_000);
    damage(&last, 3_900_000);
    let (log, found) = open().expect("a log");
    assert_eq!((log.end_offset(), found.notes.len()), (38, 1));
}

#[test]
fn missing_segment_is_refused() {
    let (_root, path) = directory();
    drop(filled(&path));
    let all = segments(&path);
    let aside = path.with_extension("aside");
    for (place, file) in all.iter().enumerate() {
        fs::rename(file, &aside).expect("moved");
        let error = refused(&path);
        let reason = match place {
            0 => "records between are missing",
            place if place + 1 == all.len() => "but was on disk up to 63",
            _ => "the segment before it ends at",
        };
        assert!(error.contains(reason), "{error}");
        fs::rename(&aside, file).expect("moved back");
    }
}

#[test]
fn epoch_of_the_state_is_not_below_the_logs() {
    let (_root, path) = directory();
    drop(filled(&path));
    fs::remove_file(path.join("quorum-state")).expect("removed");
    assert!(refused(&path).contains("it has epoch 0, the log has 1"));
}

fn header_at(log: &MetadataLog<Directory>, end: i64) -> pybroker_quorum::SnapshotHeader {
    let epoch = contents(log)
        .iter()
        .find(|batch| batch.end_offset() == end)
        .expect("a batch")
        .epoch;
    pybroker_quorum::SnapshotHeader {
        id: EpochEnd { epoch, offset: end },
        voters: voters(),
        topic_id: Some((2, Uuid::from_u128(77))),
    }
}

fn write_snapshot(log: &mut MetadataLog<Directory>, end: i64) -> Option<EpochEnd> {
    let endpoint = Endpoint {
        node: 2,
        listener: "CONTROLLER".into(),
        host: "two".into(),
        port: 9093,
    };
    let header = header_at(log, end);
    let mut writer = log
        .begin_snapshot(&header, &[endpoint], 5)
        .expect("a snapshot");
    for chunk in 0..3 {
        let values: Vec<String> = (0..100)
            .map(|value| format!("{end} {chunk} {value}"))
            .collect();
        writer
            .append(values.iter().map(|value| value.as_bytes()))
            .expect("written");
    }
    let id = writer.finish().expect("on disk");
    log.snapshot_written(id, 2_000).expect("trimmed")
}

fn records_of(log: &MetadataLog<Directory>) -> Vec<Bytes> {
    let mut reader = log
        .open_snapshot(log.latest_snapshot())
        .expect("a snapshot");
    let mut all = Vec::new();
    while let Some(records) = reader.next_records().expect("records") {
        all.extend(records);
    }
    all
}

#[test]
fn two_snapshots_are_kept_and_the_log_since_the_older() {
    let (_root, path) = directory();
    let mut log = filled(&path);
    let all = contents(&log);
    assert_eq!(write_snapshot(&mut log, 13), Some(EpochEnd::default()));
    assert_eq!(
        contents(&log),
        all,
        "the bootstrap snapshot is the older one"
    );
    let older = write_snapshot(&mut log, 33);
    assert_eq!(older.map(|start| start.offset), Some(13));
    let first = all
        .iter()
        .position(|batch| batch.base_offset == 13)
        .expect("a batch");
    assert_eq!(contents(&log), &all[first..]);
    drop(log);

    let (log, found) = open(&path);
    assert_eq!((log.start().offset, log.latest_snapshot().offset), (13, 33));
    assert_eq!(contents(&log), &all[first..]);
    assert_eq!(found.index.topic_id(), Some((2, Uuid::from_u128(77))));
    assert_eq!(found.endpoints.len(), 1);
    assert_eq!(records_of(&log).len(), 300);
    assert_eq!(records_of(&log)[299], "33 2 99");
    let names = fs::read_dir(&path).expect("a directory");
    let names: Vec<String> = names
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.contains("checkpoint"))
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

fn options(retention_bytes: i64, retention_ms: i64) -> LogOptions {
    LogOptions {
        retention_bytes,
        retention_ms,
        ..OPTIONS
    }
}

#[test]
fn snapshots_within_the_retention_are_kept() {
    let (_root, path) = directory();
    let all = contents(&filled(&path));
    let reopen = |options| {
        let files = Directory::open(&path).expect("a directory");
        MetadataLog::open(files, options).expect("opened").0
    };
    let mut log = reopen(options(-1, -1));
    for end in [13, 28, 33] {
        assert_eq!(write_snapshot(&mut log, end), Some(EpochEnd::default()));
    }
    drop(log);
    // All snapshots are older than 900 ms, but the log keeps two.
    let mut log = reopen(options(-1, 900));
    assert_eq!(log.start().offset, 0);
    assert_eq!(contents(&log), all);
    let start = write_snapshot(&mut log, 43);
    assert_eq!(start.map(|start| start.offset), Some(33));
    drop(log);
    // Three snapshots and the log exceed the limit of one byte.
    let mut log = reopen(options(1, -1));
    let start = write_snapshot(&mut log, 58);
    assert_eq!(start.map(|start| start.offset), Some(43));
}

#[test]
fn old_segment_is_rolled_at_the_next_append() {
    let (_root, path) = directory();
    format(&path);
    let files = Directory::open(&path).expect("a directory");
    let options = LogOptions {
        segment_bytes: 1 << 20,
        segment_ms: 100,
        ..OPTIONS
    };
    let open = || MetadataLog::open(files.clone(), options).expect("opened").0;
    let append = |log: &mut MetadataLog<Directory>, timestamp_ms| {
        let context = EncodeContext {
            timestamp_ms,
            voters: &voters(),
            endpoints: &[],
        };
        let next = batch(log.end_offset(), 1, 1, Body::LeaderChange(key(1)));
        log.append(&[next], &context).expect("appended");
        segments(&path).len()
    };
    let mut log = open();
    let state = QuorumState {
        epoch: 1,
        ..QuorumState::default()
    };
    log.state_write(state).run().expect("a state");
    assert_eq!(append(&mut log, 1_000), 1);
    assert_eq!(append(&mut log, 1_100), 1);
    assert_eq!(append(&mut log, 1_101), 2);
    log.close().expect("closed");
    let mut log = open();
    assert_eq!(append(&mut log, 1_201), 2);
    assert_eq!(
        append(&mut log, 1_202),
        3,
        "a restart does not change the age"
    );
}

#[test]
fn abandoned_snapshot_leaves_no_file() {
    let (_root, path) = directory();
    let log = filled(&path);
    let before = fs::read_dir(&path).expect("a directory").count();
    let mut writer = log
        .begin_snapshot(&header_at(&log, 13), &[], 5)
        .expect("a snapshot");
    writer.append([&b"image"[..]]).expect("written");
    drop(writer);
    assert_eq!(fs::read_dir(&path).expect("a directory").count(), before);
}

#[test]
fn damaged_snapshot_is_replaced_by_the_older_and_the_log() {
    let (_root, path) = directory();
    let mut log = filled(&path);
    let all = contents(&log);
    write_snapshot(&mut log, 13);
    write_snapshot(&mut log, 33);
    drop(log);
    damage(
        &path.join("00000000000000000033-0000000001.checkpoint"),
        2000,
    );
    let (log, found) = open(&path);
    assert_eq!(log.latest_snapshot().offset, 13);
    assert_eq!(log.end_offset(), all.last().expect("a batch").end_offset());
    assert!(
        found.notes[0].contains("the snapshot before it is used"),
        "{:?}",
        found.notes
    );
    drop(log);
    damage(
        &path.join("00000000000000000013-0000000001.checkpoint"),
        2000,
    );
    assert!(refused(&path).contains("00000000000000000013-0000000001.checkpoint is damaged"));
}

#[test]
fn snapshot_is_fetched_and_installed() {
    let (_root, path) = directory();
    let mut leader = filled(&path);
    write_snapshot(&mut leader, 33);
    let (_other_root, other) = directory();
    format(&other);
    let (mut follower, _) = open(&other);
    // The follower's records differ from the leader's.
    append(&mut follower, &[data(0, 0, 50)]).expect("appended");
    flush(&mut follower).expect("flushed");
    let state = QuorumState {
        epoch: 1,
        ..QuorumState::default()
    };
    follower.state_write(state).run().expect("a state");

    let reader = leader
        .open_snapshot(leader.latest_snapshot())
        .expect("a snapshot");
    let mut download = follower
        .begin_download(reader.header().id)
        .expect("a download");
    while download.position() < reader.size() {
        let part = reader.part(download.position(), 1000).expect("a part");
        download.write(&part).expect("written");
    }
    let header = download.complete().expect("a whole snapshot");
    assert_eq!(&header, reader.header());
    follower.install(header.id).expect("installed");
    assert_eq!((follower.start().offset, follower.end_offset()), (33, 33));
    assert_eq!(records_of(&follower), records_of(&leader));
    let rest = leader.read(33, i64::MAX, 1 << 20).expect("batches");
    let rest = pybroker_metadata_log::decode_batches(&rest).expect("batches");
    append(&mut follower, &rest).expect("appended");
    flush(&mut follower).expect("flushed");
    drop(follower);
    let (follower, found) = open(&other);
    assert_eq!(found.notes, Vec::<String>::new());
    assert_eq!(contents(&follower), rest);
    assert_eq!(found.index.voters(), &voters());
}

#[test]
fn abandoned_download_leaves_no_file() {
    let (_root, path) = directory();
    let log = filled(&path);
    let before = fs::read_dir(&path).expect("a directory").count();
    let id = EpochEnd {
        epoch: 1,
        offset: 500,
    };
    let mut download = log.begin_download(id).expect("a download");
    download.write(b"part").expect("written");
    drop(download);
    assert_eq!(fs::read_dir(&path).expect("a directory").count(), before);
}

#[test]
fn incomplete_download_is_refused() {
    let (_root, path) = directory();
    let mut leader = filled(&path);
    write_snapshot(&mut leader, 33);
    let reader = leader
        .open_snapshot(leader.latest_snapshot())
        .expect("a snapshot");
    let whole = reader.part(0, usize::MAX).expect("a file");
    let footer = pybroker_model::Batches::new(&whole).last();
    let (_, footer) = footer.expect("a batch").expect("a footer");
    for (size, reason) in [
        (whole.len() - footer.len(), "no footer"),
        (whole.len() / 2, "of which"),
        (0, "empty"),
    ] {
        let mut download = leader
            .begin_download(reader.header().id)
            .expect("a download");
        download.write(&whole[..size]).expect("written");
        let error = download.complete().expect_err("incomplete").to_string();
        assert!(error.contains(reason), "{size}: {error}");
    }
}

#[test]
fn directory_without_snapshot_is_not_formatted() {
    let (_root, path) = directory();
    let files = Directory::open(&path).expect("a directory");
    assert!(!MetadataLog::is_formatted(&files).expect("readable"));
    assert!(refused(&path).contains("is not formatted"));
    MetadataLog::format(&files, VoterSet::empty(), &[], 0).expect("formatted");
    assert!(MetadataLog::is_formatted(&files).expect("readable"));
    assert!(open(&path).1.index.voters().is_empty());
}

#[test]
fn addresses_of_voters_are_stored() {
    let (_root, path) = directory();
    format(&path);
    let (mut log, _) = open(&path);
    let endpoint = Endpoint {
        node: 3,
        listener: "CONTROLLER".into(),
        host: "three".into(),
        port: 65_535,
    };
    let context = EncodeContext {
        timestamp_ms: 1,
        voters: &voters(),
        endpoints: std::slice::from_ref(&endpoint),
    };
    let record = batch(0, 0, 1, Body::Voters(voters()));
    log.append(&[record], &context).expect("appended");
    drop(log);
    assert_eq!(open(&path).1.endpoints, [endpoint]);
}

#[test]
fn only_voter_that_is_left_keeps_the_log() {
    let (_root, path) = directory();
    let mut log = filled(&path);
    log.close().expect("closed");
    let (before, end) = (contents(&log), log.end_offset());
    drop(log);
    let files = Directory::open(&path).expect("a directory");
    offline::make_only_voter(&files, OPTIONS, key(1), &[], 5).expect("written");
    let (log, found) = open(&path);
    assert_eq!(log.end_offset(), end + 1);
    assert_eq!(contents(&log)[..before.len()], before);
    assert_eq!(found.index.voters(), &VoterSet::new([key(1)]));
    assert!(found.state.epoch > 1, "a new epoch");
    assert_eq!((found.state.leader, found.state.voted), (None, None));
    assert_eq!(found.index.topic_id(), Some((2, Uuid::from_u128(77))));
    drop(log);
    let summary = offline::summary(&files, OPTIONS).expect("a log");
    assert_eq!(summary.end.offset, end + 1);
    assert_eq!(summary.end.epoch, summary.epoch);
    assert_eq!(summary.voters, VoterSet::new([key(1)]));
}

#[test]
fn log_begins_with_a_restored_snapshot() {
    let (_root, path) = directory();
    let mut log = filled(&path);
    write_snapshot(&mut log, 13);
    let (id, records) = (log.latest_snapshot(), records_of(&log));
    drop(log);
    let from = Directory::open(&path).expect("a directory");
    let checked = offline::check_snapshot(&from, id).expect("a snapshot");
    assert_eq!((checked.timestamp_ms, checked.voters), (5, voters()));

    let (_other_root, other) = directory();
    let to = Directory::open(&other).expect("a directory");
    offline::restore(&from, id, &to, key(2), &[]).expect("restored");
    let (log, found) = open(&other);
    assert_eq!((log.start(), log.end_offset()), (id, 13));
    assert_eq!(records_of(&log), records);
    assert_eq!(found.index.voters(), &VoterSet::new([key(2)]));
    assert_eq!(found.index.topic_id(), Some((2, Uuid::from_u128(77))));
    assert!(found.state.epoch > id.epoch);

    let name = format!("{:020}-{:010}.checkpoint", id.offset, id.epoch);
    damage(&path.join(name), 200);
    assert!(offline::check_snapshot(&from, id).is_err());
    let (_third_root, third) = directory();
    let third = Directory::open(&third).expect("a directory");
    assert!(offline::restore(&from, id, &third, key(2), &[]).is_err());
}
