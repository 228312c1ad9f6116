//! Staging and committing with real logs, without a control plane.

use std::path::PathBuf;
use std::sync::Arc;

use pybroker_model::{BatchHeader, TimestampType, TopicId};

use super::*;
use crate::tests::{Host, batch, fetch, host, lead, order, topic_config};
use crate::{IngestError, IngestLimits, IngestName, NewIngest, Partition, PartitionError};
use pybroker_storage::{FlushMode, StagedTotals};

mod brokers;
mod limits;

const NOW: i64 = 1_000;

fn new(topic_id: TopicId, epoch: i32) -> NewIngest {
    NewIngest {
        name: IngestName {
            topic_id,
            ingest_id: "job".into(),
            batch_id: -1,
        },
        directory: format!("d-{epoch}"),
        epoch,
        config: topic_config(FlushMode::Commit, |_| {}),
    }
}

fn listed(writer: i32, data: &[u8], rows: i64) -> CommitEntry {
    let mut totals = StagedTotals::default();
    let header = BatchHeader::parse(data).expect("a batch");
    totals.add(rows, data.len() as u64, header.crc);
    CommitEntry {
        partition: 0,
        writer,
        attempt: 1,
        totals,
    }
}

#[test]
fn staged_attached_and_remembered_across_restarts() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dirs: Vec<PathBuf> = vec![temp.path().to_path_buf()];
    let id = TopicId::random();
    let ordered = order(id, 0, 3);
    let ingest = new(id, 5);
    let data = batch(&["a", "b"]);
    {
        let host = host(&dirs);
        let partition = lead(&host, &ordered);
        host.replicas
            .open_ingest(ingest.clone(), NOW)
            .expect("opens");
        for writer in [2, 1] {
            let staged = host.replicas.stage_records(
                &ingest.name,
                5,
                writer,
                1,
                &partition,
                0,
                &mut data.clone(),
                NOW,
            );
            assert_eq!(staged, Ok(2));
        }
        assert_eq!(
            host.replicas.ingests().figures().staged_bytes,
            2 * data.len() as u64
        );
        assert_eq!(partition.log_end_offset(), 0);
        // Drop the host without a stop, as after kill -9.
    }
    let host = host(&dirs);
    let partition = lead(&host, &ordered);
    host.replicas
        .open_ingest(ingest.clone(), NOW)
        .expect("opens");
    let wrong = [listed(1, &data, 2), listed(3, &data, 2)];
    let refused =
        host.replicas
            .prepare_ingest(&ingest.name, 5, &Preparation::default(), &wrong, NOW);
    assert!(matches!(refused, Err(IngestError::Mismatch(_))));
    let right = [listed(2, &data, 2), listed(1, &data, 2)];
    let prepared =
        host.replicas
            .prepare_ingest(&ingest.name, 5, &Preparation::default(), &right, NOW);
    assert_eq!(prepared, Ok(vec![(0, 4, 2 * data.len() as u64)]));
    let late =
        host.replicas
            .stage_records(&ingest.name, 5, 1, 1, &partition, 2, &mut data.clone(), NOW);
    assert_eq!(late, Err(IngestError::Committing));
    assert!(!host.replicas.expire_ingest(&ingest.name, 5, i64::MAX));
    let attached = host
        .replicas
        .attach_ingest(ordered.tip, "d-5", 0, TimestampType::CreateTime, NOW)
        .expect("attaches");
    assert_eq!((attached.0.base_offset, attached.0.end_offset), (0, 4));
    assert_eq!(partition.high_watermark(), 4, "visible");
    assert!(partition.read(&fetch(0)).expect("reads").records.len > 0);
    let again = host
        .replicas
        .attach_ingest(ordered.tip, "d-5", 0, TimestampType::CreateTime, NOW)
        .expect("answers");
    assert!(again.0.repeated);
    host.replicas
        .drop_ingest(&ingest.name, "d-5")
        .expect("drops");
    assert_eq!(host.replicas.ingests().figures().staged_bytes, 0);
    assert!(!temp.path().join("ingest").join(id.uuid().to_hex()).exists());
}

#[test]
fn what_was_staged_before_a_restart_counts_at_once() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dirs: Vec<PathBuf> = vec![temp.path().to_path_buf()];
    let id = TopicId::random();
    let ordered = order(id, 0, 3);
    let ingest = new(id, 5);
    let data = batch(&["a", "b"]);
    let size = data.len() as u64;
    let stage = |host: &Host, partition: &Partition, writer, attempt, sequence| {
        host.replicas.stage_records(
            &ingest.name,
            5,
            writer,
            attempt,
            partition,
            sequence,
            &mut data.clone(),
            NOW,
        )
    };
    {
        let host = host(&dirs);
        let partition = lead(&host, &ordered);
        host.replicas
            .open_ingest(ingest.clone(), NOW)
            .expect("opens");
        assert_eq!(stage(&host, &partition, 1, 1, 0), Ok(2));
        assert_eq!(stage(&host, &partition, -7, -1, 0), Ok(2));
    }
    let host = host(&dirs);
    let partition = lead(&host, &ordered);
    host.replicas
        .open_ingest(ingest.clone(), NOW)
        .expect("opens");
    let ingests = host.replicas.ingests();
    assert_eq!(ingests.figures().staged_bytes, 2 * size);
    assert_eq!(ingests.figures().attempts, 2);
    ingests.set_limits(IngestLimits {
        staged_bytes_max: 3 * size,
        ..IngestLimits::default()
    });
    let now = std::time::Instant::now();
    assert_eq!(ingests.admit(&ingest.name, 5, size, false, now), Ok(0));
    let refused = ingests.admit(&ingest.name, 5, size + 1, false, now);
    assert!(matches!(refused, Err(IngestError::Throttled { .. })));
    // After the attempt is opened, its records are counted once.
    assert_eq!(stage(&host, &partition, -7, -1, 2), Ok(4));
    assert_eq!(ingests.figures().staged_bytes, 3 * size);
    host.replicas
        .drop_ingest(&ingest.name, "d-5")
        .expect("drops");
    assert_eq!(ingests.figures().staged_bytes, 0);
}

#[test]
fn an_older_epoch_goes_and_orphans_are_collected() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let id = TopicId::random();
    let partition = lead(&host, &order(id, 0, 0));
    let (old, young) = (new(id, 1), new(id, 2));
    let stage = |ingest: &NewIngest, epoch| {
        host.replicas.stage_records(
            &ingest.name,
            epoch,
            0,
            1,
            &partition,
            0,
            &mut batch(&["a"]),
            NOW,
        )
    };
    host.replicas.open_ingest(old.clone(), NOW).expect("opens");
    assert_eq!(stage(&old, 1), Ok(1));
    host.replicas
        .open_ingest(young.clone(), NOW)
        .expect("opens");
    assert_eq!(
        stage(&old, 1),
        Err(IngestError::Fenced {
            requested: 1,
            current: 2
        })
    );
    assert_eq!(stage(&young, 2), Ok(1));
    let topic = temp.path().join("ingest").join(id.uuid().to_hex());
    assert!(!topic.join("d-1").exists());
    std::fs::create_dir_all(topic.join("orphan-9").join("p0")).expect("makes");
    let keep = [(id.uuid().to_hex(), "d-2".to_owned())];
    assert_eq!(host.replicas.collect_ingests(&keep), Ok(1));
    assert!(topic.join("d-2").exists());
    assert!(!host.replicas.expire_ingest(&young.name, 2, NOW));
    for _ in 0..2 {
        // Expire the ingest again, as if the control plane could not record its end.
        assert!(host.replicas.expire_ingest(&young.name, 2, NOW + 1));
    }
    assert_eq!(stage(&young, 2), Err(IngestError::Unknown));
}

#[test]
fn a_directory_that_refuses_does_not_keep_the_room_on_others() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dirs = [temp.path().join("one"), temp.path().join("two")];
    let host = host(&dirs);
    let ingest = new(TopicId::random(), 1);
    let hex = ingest.name.topic_id.uuid().to_hex();
    let [one, two] = dirs.map(|dir| dir.join("ingest").join(&hex));
    let stage_in_both = || {
        // Put a file where a directory is expected; removing it as a directory fails.
        std::fs::create_dir_all(&one).expect("makes");
        std::fs::write(one.join("d-1"), "").expect("writes");
        std::fs::create_dir_all(two.join("d-1").join("p0")).expect("makes");
    };
    let refused = |error: IngestError| {
        assert!(matches!(error, IngestError::Partition(_)), "{error}");
        assert!(error.to_string().contains("d-1"), "{error}");
    };
    stage_in_both();
    refused(
        host.replicas
            .drop_ingest(&ingest.name, "d-1")
            .expect_err("refuses"),
    );
    assert!(!two.exists());
    std::fs::remove_file(one.join("d-1")).expect("removes");
    assert_eq!(host.replicas.drop_ingest(&ingest.name, "d-1"), Ok(()));
    assert!(!one.exists());

    // Make the listing of ingests fail, with which the collection begins.
    std::fs::create_dir_all(two.join("d-1").join("p0")).expect("makes");
    let ingests = one.parent().expect("has one");
    std::fs::remove_dir(ingests).expect("is empty");
    std::fs::write(ingests, "").expect("writes");
    assert!(host.replicas.collect_ingests(&[]).is_err());
    assert!(!two.exists());
}

#[test]
fn nothing_is_staged_for_a_partition_that_is_handed_over() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let ordered = order(TopicId::random(), 0, 3);
    let partition = lead(&host, &ordered);
    let ingest = new(ordered.tip.topic_id, 5);
    host.replicas
        .open_ingest(ingest.clone(), NOW)
        .expect("opens");
    let (started, ended) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let stage = || {
            started.send(false).expect("is awaited");
            let mut data = batch(&["a"]);
            let staged =
                host.replicas
                    .stage_records(&ingest.name, 5, 1, 1, &partition, 0, &mut data, NOW);
            started.send(true).ok();
            staged
        };
        let staging = partition
            .hand_over(|_| {
                let staging = scope.spawn(stage);
                assert_eq!(ended.recv(), Ok(false));
                let early = ended.recv_timeout(std::time::Duration::from_millis(200));
                assert!(early.is_err(), "staged behind the mover's back");
                Ok::<_, IngestError>(staging)
            })
            .expect("is handed over");
        let staged = staging.join().expect("no panic");
        assert_eq!(
            staged,
            Err(IngestError::Partition(PartitionError::NotLeader))
        );
    });
    assert!(!temp.path().join("ingest").exists());
}

#[test]
fn a_commit_of_a_partition_that_the_topic_does_not_have_need_not_come_again() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let id = TopicId::random();
    let partition = lead(&host, &order(id, 0, 0));
    let ingest = new(id, 1);
    let open = |ingest: &NewIngest| {
        let opened = host.replicas.open_ingest(ingest.clone(), NOW);
        opened.expect("opens");
    };
    open(&ingest);
    let mut data = batch(&["a"]);
    let right = listed(0, &data, 1);
    let staged = host
        .replicas
        .stage_records(&ingest.name, 1, 0, 1, &partition, 0, &mut data, NOW);
    assert_eq!(staged, Ok(1));
    for wrong in [99, -1, i32::MIN, i32::MAX] {
        let wrong = CommitEntry {
            partition: wrong,
            totals: StagedTotals::default(),
            ..right
        };
        let refused = host.replicas.prepare_ingest(
            &ingest.name,
            1,
            &Preparation::default(),
            &[right, wrong],
            NOW,
        );
        let Err(IngestError::Mismatch(text)) = refused else {
            panic!("{refused:?}");
        };
        let named = format!("the topic has no partition {}", wrong.partition);
        assert!(text.starts_with(&named), "{text}");
    }
    assert!(
        host.replicas
            .prepare_ingest(&ingest.name, 1, &Preparation::default(), &[right], NOW)
            .is_ok(),
        "it stayed open"
    );
    // This broker hosts no partition of this topic, so another broker may lead it.
    let elsewhere = new(TopicId::random(), 1);
    open(&elsewhere);
    let away =
        host.replicas
            .prepare_ingest(&elsewhere.name, 1, &Preparation::default(), &[right], NOW);
    let not_leader = IngestError::Partition(PartitionError::NotLeader);
    assert_eq!(away, Err(not_leader));
}

#[test]
fn an_attempt_that_could_not_be_begun_follows_its_partition() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dirs = ["a", "b"].map(|name| temp.path().join(name));
    let host = host(&dirs);
    let ordered = order(TopicId::random(), 0, 3);
    let partition = lead(&host, &ordered);
    let (from, to) = match partition.dir() {
        Some(0) => (0, 1),
        _ => (1, 0),
    };
    let ingest = new(ordered.tip.topic_id, 5);
    host.replicas
        .open_ingest(ingest.clone(), NOW)
        .expect("opens");
    let data = batch(&["a"]);
    let stage = |partition: &Partition| {
        host.replicas
            .stage_records(&ingest.name, 5, 1, 1, partition, 0, &mut data.clone(), NOW)
    };
    // Simulate a disk without space for a directory.
    std::fs::write(dirs[from].join("ingest"), "").expect("writes");
    let failed = stage(&partition);
    assert!(
        matches!(
            failed,
            Err(IngestError::Partition(PartitionError::Storage(_)))
        ),
        "{failed:?}"
    );
    std::fs::remove_file(dirs[from].join("ingest")).expect("removes");
    let moved = host.replicas.move_partition(ordered.tip, &dirs[to]);
    assert_eq!(moved, Ok(()));
    let deadline = std::time::Instant::now() + crate::tests::WAIT;
    let partition = loop {
        let partition = host.replicas.partition(ordered.tip).expect("hosted");
        if partition.dir() == Some(to) {
            break partition;
        }
        assert!(std::time::Instant::now() < deadline, "never moved");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert_eq!(stage(&partition), Ok(1));
    assert_eq!(host.replicas.ingests().figures().attempts, 1);
    let right = [listed(1, &data, 1)];
    let prepared =
        host.replicas
            .prepare_ingest(&ingest.name, 5, &Preparation::default(), &right, NOW);
    assert_eq!(prepared, Ok(vec![(0, 1, data.len() as u64)]));
    let attached =
        host.replicas
            .attach_ingest(ordered.tip, "d-5", 0, TimestampType::CreateTime, NOW);
    assert_eq!(attached.expect("attaches").0.end_offset, 1);
}
