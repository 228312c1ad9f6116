//! The process crashes at each write, sync, rename and removal of a long run. All acknowledged data must survive.

mod support;

use std::collections::HashSet;

use bytes::Bytes;
use pybroker_metadata_log::{Files, LogError, MetadataLog};
use pybroker_model::Uuid;
use pybroker_quorum::{Batch, Body, EpochEnd, QuorumState, SnapshotHeader};
use support::{
    FailingDirectory, OPTIONS, append, batch, contents, data, flush, format, key, open, voters,
};

/// The data that the log has reported as durable.
#[derive(Default)]
struct AcknowledgedState {
    /// All batches in the log, flushed or not.
    log: Vec<Batch<Bytes>>,
    flushed: i64,
    epoch: i32,
    /// The end of the latest snapshot. The log begins at or before this offset.
    snapshot: i64,
    /// The offset and epoch of every batch ever written.
    written: HashSet<(i64, i32)>,
}

impl AcknowledgedState {
    fn append<F: Files>(
        &mut self,
        log: &mut MetadataLog<F>,
        batches: Vec<Batch<Bytes>>,
    ) -> Result<(), LogError> {
        self.written
            .extend(batches.iter().map(|batch| (batch.base_offset, batch.epoch)));
        self.log.extend(batches.iter().cloned());
        append(log, &batches).map(drop)
    }

    fn flush<F: Files>(&mut self, log: &mut MetadataLog<F>) -> Result<(), LogError> {
        flush(log)?;
        self.flushed = log.end_offset();
        Ok(())
    }

    fn truncate<F: Files>(&mut self, log: &mut MetadataLog<F>, end: i64) -> Result<(), LogError> {
        self.flushed = self.flushed.min(end);
        self.log.retain(|batch| batch.end_offset() <= end);
        log.truncate(end)
    }

    fn epoch<F: Files>(&mut self, log: &mut MetadataLog<F>, epoch: i32) -> Result<(), LogError> {
        let state = QuorumState {
            epoch,
            ..QuorumState::default()
        };
        log.state_write(state).run()?;
        self.epoch = epoch;
        Ok(())
    }

    fn snapshot<F: Files>(
        &mut self,
        log: &mut MetadataLog<F>,
        epoch: i32,
        end: i64,
    ) -> Result<(), LogError> {
        let header = header(epoch, end);
        let mut writer = log.begin_snapshot(&header, &[], 1)?;
        writer.append([&b"image"[..]])?;
        let id = writer.finish()?;
        self.snapshot = end;
        log.snapshot_written(id, 1).map(drop)
    }
}

fn header(epoch: i32, end: i64) -> SnapshotHeader {
    SnapshotHeader {
        id: EpochEnd { epoch, offset: end },
        voters: voters(),
        topic_id: Some((2, Uuid::from_u128(77))),
    }
}

/// Append, roll, truncate across segments, write snapshots, and install one.
fn run(
    files: FailingDirectory,
    promised: &mut AcknowledgedState,
    snapshot: &[u8],
) -> Result<(), LogError> {
    let (mut log, _) = MetadataLog::open(files, OPTIONS)?;
    promised.epoch(&mut log, 1)?;
    let controls = vec![
        batch(0, 1, 1, Body::LeaderChange(key(1))),
        batch(1, 1, 1, Body::Voters(voters())),
        batch(2, 1, 1, Body::TopicId(Uuid::from_u128(77))),
    ];
    promised.append(&mut log, controls)?;
    for base in (3..30).step_by(3) {
        promised.append(&mut log, vec![data(base, 1, 2), data(base + 2, 1, 1)])?;
        if base % 2 == 0 {
            promised.flush(&mut log)?;
        }
    }
    promised.flush(&mut log)?;
    promised.snapshot(&mut log, 1, 12)?;
    promised.epoch(&mut log, 2)?;
    promised.truncate(&mut log, 15)?;
    promised.append(
        &mut log,
        vec![data(15, 2, 5), data(20, 2, 5), data(25, 2, 5)],
    )?;
    promised.flush(&mut log)?;
    promised.truncate(&mut log, 20)?;
    promised.append(&mut log, vec![data(20, 2, 10)])?;
    promised.snapshot(&mut log, 2, 20)?;
    promised.flush(&mut log)?;
    // The leader of a later epoch has a snapshot that disagrees with this log.
    promised.epoch(&mut log, 5)?;
    let mut download = log.begin_download(header(4, 25).id)?;
    download.write(snapshot)?;
    let id = download.complete()?.id;
    // During the installation, both the old log and the snapshot are correct results.
    promised.flushed = 0;
    log.install(id)?;
    promised.log.clear();
    promised.flushed = 25;
    promised.snapshot = 25;
    promised.append(&mut log, vec![data(25, 5, 3), data(28, 5, 3)])?;
    promised.flush(&mut log)?;
    promised.append(&mut log, vec![data(31, 5, 3)])?;
    log.close()?;
    promised.flushed = 34;
    Ok(())
}

/// The bytes of a snapshot from the leader.
fn leaders_snapshot() -> Bytes {
    let root = tempfile::tempdir().expect("a directory");
    format(root.path());
    let (log, _) = open(root.path());
    let mut writer = log
        .begin_snapshot(&header(4, 25), &[], 1)
        .expect("a snapshot");
    writer
        .append([&b"the leader's image"[..]])
        .expect("written");
    let id = writer.finish().expect("on disk");
    log.open_snapshot(id)
        .expect("a snapshot")
        .part(0, usize::MAX)
        .expect("a file")
}

#[test]
fn what_was_acknowledged_survives_a_death_at_every_operation() {
    let mut deaths = 0;
    let snapshot = leaders_snapshot();
    for operations in 0.. {
        let root = tempfile::tempdir().expect("a directory");
        format(root.path());
        let files = FailingDirectory::open(root.path(), operations);
        let mut promised = AcknowledgedState::default();
        let outcome = run(files, &mut promised, &snapshot);
        let (log, found) = open(root.path());
        check(&log, &promised, operations);
        assert!(found.state.epoch >= promised.epoch, "death {operations}");
        // The recovered log accepts appends, and the next start finds it undamaged.
        let mut log = log;
        let end = log.end_offset();
        let epoch = found.state.epoch;
        append(&mut log, &[data(end, epoch, 4)]).expect("appended");
        flush(&mut log).expect("flushed");
        drop(log);
        let (log, found) = open(root.path());
        assert_eq!(log.end_offset(), end + 4, "death {operations}");
        assert_eq!(found.notes, Vec::<String>::new(), "death {operations}");
        if outcome.is_ok() {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 100, "{deaths}");
}

fn check(
    log: &MetadataLog<pybroker_metadata_log::Directory>,
    promised: &AcknowledgedState,
    death: usize,
) {
    let found = contents(log);
    let end = log.end_offset();
    assert!(
        end >= promised.flushed,
        "death {death}: {end} of {}",
        promised.flushed
    );
    assert!(
        log.latest_snapshot().offset >= promised.snapshot.min(end),
        "death {death}"
    );
    for batch in &found {
        let place = (batch.base_offset, batch.epoch);
        assert!(
            promised.written.contains(&place),
            "death {death}: {place:?}"
        );
        let expected = promised
            .log
            .iter()
            .find(|one| one.base_offset == batch.base_offset);
        if batch.end_offset() <= promised.flushed {
            let expected = expected.map(|one| (one.epoch, one.records));
            assert_eq!(
                expected,
                Some((batch.epoch, batch.records)),
                "death {death}"
            );
        }
    }
}
