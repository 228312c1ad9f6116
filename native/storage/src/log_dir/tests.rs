use super::*;
use crate::testing::*;
use crate::{AppendOrigin, LocalPartition, NewPartition};
use pybroker_model::{TopicId, ValidBatches};

fn new(topic: &str, partition: i32) -> NewPartition {
    let id = TopicIdPartition {
        topic_id: TopicId::random(),
        partition,
    };
    NewPartition {
        topic: topic.into(),
        id,
        leader_epoch: Some(4),
    }
}

fn options() -> LogDirOptions {
    let mut options = LogDirOptions::new(1, "cluster".into());
    options.flush_threads = 1;
    options
}

#[test]
fn one_process_one_cluster_one_broker() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dir = LogDir::open(temp.path(), &options()).expect("opens");
    assert!(matches!(
        LogDir::open(temp.path(), &options()),
        Err(StorageError::Locked { .. })
    ));
    let id = dir.directory_id();
    drop(dir);
    assert_eq!(
        LogDir::open(temp.path(), &options())
            .expect("opens")
            .directory_id(),
        id
    );
    for foreign in [
        LogDirOptions::new(1, "other".into()),
        LogDirOptions::new(2, "cluster".into()),
    ] {
        let error = LogDir::open(temp.path(), &foreign).expect_err("refused");
        assert!(matches!(error, StorageError::Foreign { .. }), "{error}");
    }
    let path = temp.path().join("meta.properties");
    std::fs::write(&path, "version=1\ncluster.id=cluster\nnode.id=1\n").expect("writes");
    LogDir::open(temp.path(), &options()).expect("KRaft's file says the same");
    std::fs::write(
        &path,
        "pybroker.format=3\ncluster.id=cluster\nbroker.id=1\n",
    )
    .expect("writes");
    assert!(
        LogDir::open(temp.path(), &options()).is_err(),
        "written by a newer release"
    );
    std::fs::write(&path, "garbage").expect("writes");
    assert!(matches!(
        LogDir::open(temp.path(), &options()),
        Err(StorageError::Corrupt { .. })
    ));
}

#[test]
fn partitions_are_made_found_and_reported() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dir = LogDir::open(temp.path(), &options()).expect("opens");
    for count in [2, 40] {
        let partitions: Vec<_> = (0..count).map(|n| new(&format!("t{count}"), n)).collect();
        assert!(dir.create_partitions(&partitions).iter().all(Result::is_ok));
        assert!(
            dir.create_partitions(&partitions)
                .iter()
                .all(|r| matches!(r, Err(StorageError::Exists { .. })))
        );
        let found = dir.scan().expect("scans");
        for partition in &partitions {
            let expected = LocalPartition {
                directory: partition.directory(),
                topic: Some(partition.topic.clone()),
                partition: partition.id.partition,
                topic_id: Some(partition.id.topic_id),
                problem: None,
                moving: MoveState::No,
            };
            assert!(found.contains(&expected));
        }
    }
    std::fs::create_dir(temp.path().join("half-0")).expect("creates");
    std::fs::write(temp.path().join("half-0/partition.metadata.tmp"), "x").expect("writes");
    std::fs::create_dir(temp.path().join("bad-0")).expect("creates");
    std::fs::write(temp.path().join("bad-0/partition.metadata"), "x").expect("writes");
    std::fs::create_dir(temp.path().join("strange")).expect("creates");
    std::fs::create_dir(temp.path().join("__cluster_metadata-0")).expect("creates");
    let found = dir.scan().expect("scans");
    assert!(
        !found.iter().any(|p| p.directory.starts_with("__cluster")),
        "the metadata log is no partition"
    );
    let problem = |name: &str| {
        found
            .iter()
            .find(|p| p.directory == name)
            .and_then(|p| p.problem.clone())
            .expect(name)
    };
    assert!(problem("half-0").contains("missing"));
    assert!(problem("bad-0").contains("corrupt"));
    assert!(problem("strange").contains("not named"));
    assert!(
        dir.create_partitions(&[new("half", 0)]).remove(0).is_ok(),
        "an unfinished creation is completed"
    );
    assert!(dir.create_partitions(&[new("bad", 0)]).remove(0).is_err());
}

// checklist: R1
#[test]
fn many_logs_flush_in_groups() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dir = LogDir::open(
        temp.path(),
        &LogDirOptions {
            syncfs_logs: 4,
            ..options()
        },
    )
    .expect("opens");
    let partitions: Vec<_> = (0..50).map(|n| new("t", n)).collect();
    assert!(dir.create_partitions(&partitions).iter().all(Result::is_ok));
    let logs: Vec<_> = partitions
        .iter()
        .map(|p| {
            dir.open_log(&p.directory(), p.id, Arc::default(), NOW)
                .expect("opens")
                .0
        })
        .collect();
    for round in 1..=20 {
        for log in &logs {
            let bytes = ValidBatches::checked_owned(batch(&["x"])).expect("valid");
            log.append_as_leader(bytes, 4, AppendOrigin::Client, NOW)
                .expect("appends");
            dir.flusher().request(log);
        }
        if round % 10 == 0 {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while logs.iter().any(|log| log.flushed_end_offset() < round) {
                assert!(std::time::Instant::now() < deadline, "flushed in the end");
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn staged_listed_and_purged() {
    let mut f = Fixture::new(crate::LogConfig::default());
    f.append(batch(&["a"])).expect("appends");
    let log = f.log.take().expect("open");
    let slice = log.read(0, 1000, 1, true).expect("reads");
    let dir = Arc::clone(f.dir());
    let to = dir
        .stage_logs(&[&log], NOW + 1000)
        .remove(0)
        .expect("stages");
    assert!(!f.partition().exists());
    assert!(
        !slice
            .to_vec()
            .expect("readers in progress finish")
            .is_empty()
    );
    assert!(matches!(log.flush(), Err(StorageError::Closed { .. })));
    dir.flusher().request(&log);
    assert!(
        dir.check().is_ok(),
        "a late flush of a deleted log is no failure of the disk"
    );
    let bytes = ValidBatches::checked_owned(batch(&["x"])).expect("valid");
    assert!(
        log.append_as_leader(bytes, 9, AppendOrigin::Client, NOW)
            .is_err()
    );
    let staged = dir.staged_deletions().expect("lists");
    assert_eq!(staged.len(), 1);
    assert_eq!(
        (staged[0].id, staged[0].deadline_ms),
        (Some(f.id), Some(NOW + 1000))
    );
    assert_eq!(
        (staged[0].path.clone(), staged[0].directory.as_deref()),
        (to.clone(), Some(DIRECTORY))
    );
    let name = format!("{}_0", f.id.topic_id.uuid().to_hex());
    assert_eq!(to.file_name().and_then(|n| n.to_str()), Some(name.as_str()));
    assert!(dir.scan().expect("scans").is_empty());
    assert!(dir.purge(&f.path()).is_err(), "only what was staged");
    assert!(dir.purge(&to.join("..").join("..")).is_err());
    assert!(dir.purge(&to).expect("purges") > 0);
    assert!(dir.staged_deletions().expect("lists").is_empty());
    assert!(dir.stage_directory("../x", f.id, 0).is_err());
}

/// Create and open `count` partitions of one topic.
fn opened(dir: &LogDir, topic: &str, count: i32) -> Vec<Arc<Log>> {
    let topic_id = TopicId::random();
    let partitions: Vec<_> = (0..count)
        .map(|partition| NewPartition {
            id: TopicIdPartition {
                topic_id,
                partition,
            },
            ..new(topic, partition)
        })
        .collect();
    assert!(dir.create_partitions(&partitions).iter().all(Result::is_ok));
    let open = |new: &NewPartition| dir.open_log(&new.directory(), new.id, Arc::default(), NOW);
    partitions
        .iter()
        .map(|new| open(new).expect("opens").0)
        .collect()
}

#[test]
fn partitions_that_share_small_files_go_their_own_ways() {
    // A few files are synced one by one, many with barriers.
    for count in [3, 12] {
        share_small_files(count);
    }
}

fn share_small_files(count: usize) {
    let last = count - 1;
    let temp = tempfile::tempdir().expect("temp dir");
    let dir = LogDir::open(temp.path(), &options()).expect("opens");
    let logs = opened(&dir, "t", i32::try_from(count).expect("small"));
    let epochs = |partition: usize| {
        std::fs::read_to_string(
            temp.path()
                .join(format!("t-{partition}/leader-epoch-checkpoint")),
        )
        .expect("reads")
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let shared = std::fs::metadata(temp.path().join("t-0/partition.metadata"));
        assert_eq!(shared.expect("there").nlink(), count as u64);
    }
    let before = epochs(last);
    assert!(logs[1].begin_epoch(7).expect("begins"));
    let bytes = ValidBatches::checked_owned(batch(&["x"])).expect("valid");
    logs[1]
        .append_as_leader(bytes, 7, AppendOrigin::Client, NOW)
        .expect("appends");
    logs[1].flush().expect("flushes");
    assert_ne!(epochs(1), before);
    assert!(
        (0..count)
            .filter(|at| *at != 1)
            .all(|at| epochs(at) == before)
    );
    std::fs::remove_dir_all(temp.path().join("t-0")).expect("removes");
    let found = dir.scan().expect("scans");
    assert_eq!(found.len(), last);
    assert!(
        found
            .iter()
            .all(|local| local.topic_id == Some(logs[0].id().topic_id)),
        "{found:?}"
    );
}

#[test]
fn a_note_that_a_power_cut_took_costs_a_scan_and_no_record() {
    for lost in [Some("".as_bytes()), Some(&[0; 64]), None] {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = LogDir::open(temp.path(), &options()).expect("opens");
        let log = opened(&dir, "t", 1).remove(0);
        let bytes = ValidBatches::checked_owned(batch(&["x"])).expect("valid");
        log.append_as_leader(bytes, 4, AppendOrigin::Client, NOW)
            .expect("appends");
        let to = dir.stage_logs(&[&log], NOW).remove(0).expect("stages");
        let note = to.join(file_names::DELETION);
        match lost {
            Some(bytes) => std::fs::write(&note, bytes).expect("writes"),
            None => std::fs::remove_file(&note).expect("removes"),
        }
        let waiting = dir.staged_deletions().expect("lists");
        assert_eq!(waiting[0].id, Some(log.id()));
        let back = dir.restore(log.id(), "t").expect("restores");
        let (again, _) = dir
            .open_log(&back.expect("it waited"), log.id(), Arc::default(), NOW)
            .expect("opens");
        assert_eq!((again.log_start_offset(), again.log_end_offset()), (0, 1));
    }
}

#[test]
fn many_logs_are_staged_together_and_come_back_with_what_their_notes_say() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dir = LogDir::open(temp.path(), &options()).expect("opens");
    let logs = opened(&dir, "t", 12);
    for log in &logs {
        let bytes = ValidBatches::checked_owned(batch(&["x"])).expect("valid");
        log.append_as_leader(bytes, 4, AppendOrigin::Client, NOW)
            .expect("appends");
    }
    logs[5].flush().expect("flushes");
    logs[5].delete_records(1, 1).expect("deletes");
    // Something outside the broker removed one directory. The other partitions are unaffected.
    std::fs::remove_dir_all(logs[7].directory()).expect("removes");
    let doomed: Vec<&Log> = logs.iter().map(Arc::as_ref).collect();
    let staged = dir.stage_logs(&doomed, NOW + 1000);
    assert!(staged[7].is_err());
    assert_eq!(staged.iter().filter(|staged| staged.is_ok()).count(), 11);
    assert!(matches!(logs[7].flush(), Err(StorageError::Closed { .. })));
    let waiting = dir.staged_deletions().expect("lists");
    assert_eq!(waiting.len(), 11);
    for one in &waiting {
        let partition = one.id.expect("known").partition;
        assert_eq!(one.directory, Some(format!("t-{partition}")));
        assert_eq!(one.deadline_ms, Some(NOW + 1000));
    }
    let back = dir.restore(logs[5].id(), "t").expect("restores");
    let (log, _) = dir
        .open_log(&back.expect("it waited"), logs[5].id(), Arc::default(), NOW)
        .expect("opens");
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (1, 1));
}

// checklist: R24
#[test]
fn a_clean_stop_remembers_everything() {
    let mut f = Fixture::new(crate::LogConfig::default());
    f.append(batch(&["a", "b"])).expect("appends");
    let (log, dir) = (Arc::clone(f.log()), Arc::clone(f.dir()));
    dir.close(&[(log, 1)]).expect("closes");
    drop(dir);
    assert!(f.append(batch(&["late"])).is_err(), "closed");
    f.crash();
    let report = f.open();
    assert!(report.clean);
    assert_eq!(f.dir().checkpointed_high_watermark("topic", 0), Some(1));
    assert_eq!(f.log().flushed_end_offset(), 2);
    f.crash();
    assert!(!f.open().clean, "the marker was used up");
}
