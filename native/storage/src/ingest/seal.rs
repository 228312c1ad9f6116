//! Preparation of a commit before its decision: sync the listed attempts and write the list.
//!
//! Nearly all of the time goes into syncs, and parallel syncs share the filesystem's commits. So several partitions are
//! sealed in parallel, and common directories are synced once, at the end. Many attempts share one sync. Otherwise each
//! attempt would need about five syncs, one after another.

use crate::error::StorageError;
use crate::files;
use crate::flusher::SYNCFS_LOGS;
use crate::log::Log;
use crate::log_dir::LogDir;
use crate::staged::{PlannedAttempt, StagedPartition, intent, plan};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of partitions sealed in parallel, the same as the number of parallel flushes elsewhere. More would delay
/// other flushes.
const PARTITIONS_AT_A_TIME: usize = 4;

/// The committed attempts of one partition, in the order of its log.
#[derive(Debug)]
pub struct Listing {
    /// The partition of an ingest.
    pub place: StagedPartition,
    /// Ids of the brokers that have all the records on disk when the commit is decided. Empty for a broker without
    /// peers.
    pub holders: Arc<[i32]>,
    /// The attempts with their open logs.
    pub attempts: Vec<(PlannedAttempt, Arc<Log>)>,
}

impl LogDir {
    /// Sync the staged records and write the lists of committed attempts, durably: this is the part of a commit before
    /// the decision, for the partitions in this directory.
    ///
    /// # Errors
    /// The first [`StorageError`]; after an error the commit must not be decided.
    pub fn seal_partitions(&self, listings: &[Listing]) -> Result<(), StorageError> {
        let logs = || listings.iter().flat_map(|one| &one.attempts);
        let together = cfg!(target_os = "linux") && logs().count() >= SYNCFS_LOGS;
        if together {
            let logs: Vec<_> = logs().map(|(_, log)| Arc::clone(log)).collect();
            for log in &logs {
                log.write_indexes()?;
            }
            self.flusher().flush_all(&logs)?;
        }
        for some in listings.chunks(PARTITIONS_AT_A_TIME) {
            let Some((first, others)) = some.split_first() else {
                continue;
            };
            std::thread::scope(|scope| {
                let others: Vec<_> = others
                    .iter()
                    .map(|one| scope.spawn(|| one.seal(together)))
                    .collect();
                let first = first.seal(together);
                others.into_iter().fold(first, |so_far, other| {
                    let sealed = other.join().unwrap_or_else(|panic| {
                        std::panic::resume_unwind(panic);
                    });
                    so_far.and(sealed)
                })
            })?;
        }
        for dir in self.above(listings) {
            files::sync_dir(&dir)?;
        }
        Ok(())
    }

    /// Return the directories between the partitions and the log directory, which the ingest created. Each is returned
    /// once, the deepest first.
    fn above(&self, listings: &[Listing]) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = Vec::new();
        for listing in listings {
            let parents = listing.place.path().ancestors().skip(1);
            for dir in parents.take_while(|dir| dir.starts_with(self.path())) {
                if !dirs.iter().any(|known| known == dir) {
                    dirs.push(dir.to_path_buf());
                }
            }
        }
        dirs.sort_by_key(|dir| std::cmp::Reverse(dir.components().count()));
        dirs
    }
}

impl Listing {
    /// Write the plan of one partition. `synced`: the attempts are on disk already.
    fn seal(&self, synced: bool) -> Result<(), StorageError> {
        for (_, log) in self.attempts.iter().filter(|_| !synced) {
            log.seal()?;
        }
        let planned: Vec<PlannedAttempt> = self.attempts.iter().map(|(one, _)| *one).collect();
        let path: &Path = &self.place.plan_path();
        let file = files::write_temporary(path, plan::render(&planned, &self.holders).as_bytes())?;
        files::sync_data(&file).map_err(StorageError::io("sync", path))?;
        files::replace(path)?;
        // After the decision the files must match the plan, so this is the last moment to refuse.
        plan::segments(&self.place)?;
        intent::prepare(&self.place.intent_path())?;
        // This sync makes the names of plan, intent and attempts durable.
        files::sync_dir(self.place.path())
    }
}

impl Log {
    fn write_indexes(&self) -> Result<(), StorageError> {
        let writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        writer.active.persist_indexes(true)
    }

    /// Sync everything, indexes included; the files are ready to become segments of another log.
    fn seal(&self) -> Result<(), StorageError> {
        self.write_indexes()?;
        self.flush()?;
        for segment in self.segments.load().iter() {
            segment.sync_indexes()?;
        }
        files::sync_dir(&self.directory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AppendOrigin;
    use crate::testing::{Fixture, NOW, batch};
    use pybroker_model::{TopicIdPartition, ValidBatches};

    /// Return one staged record for each partition and writer.
    fn listings(fixture: &Fixture, partitions: i32, writers: i32) -> Vec<Listing> {
        let listing = |partition| {
            let id = TopicIdPartition {
                partition,
                ..fixture.id
            };
            let place = fixture.dir().staged_partition(id, "load-1");
            let staged = |writer| {
                let opened = fixture
                    .dir()
                    .open_staged(&place, writer, 7, &fixture.config, NOW);
                let (log, _) = opened.expect("opens");
                let bytes = batch(&["value"]);
                let planned = PlannedAttempt {
                    writer,
                    attempt: 7,
                    rows: 1,
                    bytes: bytes.len() as u64,
                };
                let valid = ValidBatches::checked_owned(bytes).expect("a batch");
                log.append_as_leader(valid, -1, AppendOrigin::Client, NOW)
                    .expect("stages");
                (planned, log)
            };
            let attempts = (0..writers).map(staged).collect();
            Listing {
                place,
                holders: Arc::default(),
                attempts,
            }
        };
        (0..partitions).map(listing).collect()
    }

    #[test]
    fn many_partitions_are_sealed_and_each_has_its_plan() {
        let fixture = Fixture::new(Default::default());
        let listings = listings(&fixture, 2 * PARTITIONS_AT_A_TIME as i32 + 1, 1);
        fixture.dir().seal_partitions(&listings).expect("seals");
        for listing in &listings {
            let [segment] = &plan::segments(&listing.place).expect("a plan")[..] else {
                panic!("one segment");
            };
            assert_eq!(segment.rows, 1);
            assert!(listing.place.intent_path().exists());
            assert_eq!(listing.attempts[0].1.flushed_end_offset(), 1);
        }
        assert_eq!(fixture.dir().above(&listings).len(), 4, "each once");
    }

    #[test]
    fn many_attempts_are_sealed_together() {
        let writers = SYNCFS_LOGS as i32;
        let fixture = Fixture::new(Default::default());
        let sealed = listings(&fixture, 2, writers);
        fixture.dir().seal_partitions(&sealed).expect("seals");
        for listing in &sealed {
            let planned = plan::segments(&listing.place).expect("a plan");
            assert_eq!(planned.len(), writers as usize);
            for (_, log) in &listing.attempts {
                assert_eq!(log.flushed_end_offset(), 1);
            }
        }
        sealed[1].attempts[3].1.discard();
        let again = fixture.dir().seal_partitions(&sealed);
        assert!(
            matches!(again, Err(StorageError::Closed { .. })),
            "{again:?}"
        );
    }

    #[test]
    fn one_partition_that_cannot_be_sealed_fails_the_commit() {
        for broken in 0..PARTITIONS_AT_A_TIME {
            let fixture = Fixture::new(Default::default());
            let listings = listings(&fixture, PARTITIONS_AT_A_TIME as i32, 1);
            listings[broken].attempts[0].1.discard();
            let sealed = fixture.dir().seal_partitions(&listings);
            assert!(
                matches!(sealed, Err(StorageError::Closed { .. })),
                "{sealed:?}"
            );
        }
    }
}
