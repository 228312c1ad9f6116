//! Opening and closing ingests on this broker, and removing the files of ended ingests after a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use parking_lot::{Mutex, RwLock};
use pybroker_model::{TopicId, TopicIdPartition};

use crate::open_ingests::{Attempt, Attempts, CLOSED, Ingest, OPEN};
use crate::{IngestError, IngestName, NewIngest, Replicas};

impl Replicas {
    /// Open an ingest for appends. An ingest already open with this epoch stays unchanged; one with an older epoch is
    /// dropped with its files. Records that were staged before a restart are kept. Blocks on the disk.
    ///
    /// # Errors
    /// `Storage` if the files of the older epoch cannot be removed, or those of this epoch cannot be listed.
    pub fn open_ingest(&self, new: NewIngest, now_ms: i64) -> Result<(), IngestError> {
        let older = self.ingests.open.read().get(&new.name).cloned();
        if let Some(older) = older {
            if older.new.epoch >= new.epoch {
                return Ok(());
            }
            self.close_ingest(&older);
            self.remove_ingest(older.new.name.topic_id, &older.new.directory)?;
        }
        let attempts = self.staged_before(&new)?;
        let bytes = attempts
            .values()
            .map(|attempt| attempt.bytes.load(Ordering::Relaxed))
            .sum();
        self.ingests
            .attempts
            .fetch_add(attempts.len(), Ordering::Relaxed);
        self.ingests
            .staged_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let ingest = Arc::new(Ingest {
            new,
            state: AtomicU8::new(OPEN),
            touched_ms: AtomicI64::new(now_ms),
            gate: RwLock::default(),
            attempts: Mutex::new(attempts),
            sealed: Mutex::default(),
        });
        let name = ingest.new.name.clone();
        self.ingests.open.write().insert(name, ingest);
        Ok(())
    }

    fn staged_before(&self, new: &NewIngest) -> Result<Attempts, IngestError> {
        let topic_id = new.name.topic_id;
        let mut attempts = Attempts::new();
        for dir in self.dirs.iter() {
            let Ok(log_dir) = dir.online() else { continue };
            for (partition, writer, attempt, bytes) in
                log_dir.staged_attempts(topic_id, &new.directory)?
            {
                let tip = TopicIdPartition {
                    topic_id,
                    partition,
                };
                let place = log_dir.staged_partition(tip, &new.directory);
                let found = Attempt::new(Arc::clone(log_dir), place, writer, attempt, bytes);
                attempts.insert((partition, writer, attempt), Arc::new(found));
            }
        }
        Ok(attempts)
    }

    /// Close an ingest that received no records since `before_ms` and whose commit is not running. Return whether it is
    /// closed. Return true also if it was closed before, because the control plane may not have recorded its end.
    pub fn expire_ingest(&self, name: &IngestName, epoch: i32, before_ms: i64) -> bool {
        let found = self.ingests.open.read().get(name).cloned();
        let Some(ingest) = found.filter(|ingest| ingest.new.epoch == epoch) else {
            return true;
        };
        let _gate = ingest.gate.write();
        ingest.touched_ms.load(Ordering::Relaxed) < before_ms
            && ingest
                .state
                .compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire)
                .map_or_else(|state| state == CLOSED, |_| true)
    }

    /// Close an ingest and remove its files; attached records stay in the logs. Does nothing if it does not exist.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// `Storage`: the ingest is closed and the removable files are gone; a retry removes the rest.
    pub fn drop_ingest(&self, name: &IngestName, directory: &str) -> Result<(), IngestError> {
        let found = self.ingests.open.read().get(name).cloned();
        if let Some(ingest) = found.filter(|ingest| ingest.new.directory == directory) {
            self.close_ingest(&ingest);
            self.ingests.open.write().remove(name);
        }
        // Withdraw the announcement of files that are about to be removed.
        self.forget_attaches(&name.topic_id.uuid().to_hex(), directory, false);
        let removed = self.remove_ingest(name.topic_id, directory);
        if removed.is_err() {
            self.forget_attaches(&name.topic_id.uuid().to_hex(), directory, true);
        }
        removed
    }

    fn forget_attaches(&self, topic_hex: &str, directory: &str, left: bool) {
        let map = self.snapshot();
        for topic in map.topics() {
            for (_, partition) in topic.partitions() {
                if partition.tip().topic_id.uuid().to_hex() == topic_hex {
                    partition.forget_attach(directory, left);
                }
            }
        }
    }

    fn close_ingest(&self, ingest: &Ingest) {
        let _gate = ingest.gate.write();
        ingest.state.store(CLOSED, Ordering::Release);
        let mut bytes = 0;
        let attempts = std::mem::take(&mut *ingest.attempts.lock());
        self.ingests
            .attempts
            .fetch_sub(attempts.len(), Ordering::Relaxed);
        for attempt in attempts.into_values() {
            if let Some(staged) = attempt.staged.lock().take() {
                staged.log.discard();
            }
            bytes += attempt.bytes.swap(0, Ordering::Relaxed);
        }
        self.ingests
            .staged_bytes
            .fetch_sub(bytes, Ordering::Relaxed);
    }

    fn remove_ingest(&self, topic_id: TopicId, directory: &str) -> Result<(), IngestError> {
        let hex = topic_id.uuid().to_hex();
        let mut removed = Ok(());
        for dir in self.dirs.iter() {
            if let Ok(log_dir) = dir.online() {
                // Continue after an error, so that the space on the other disks is freed.
                removed = removed.and(log_dir.remove_ingest(&hex, directory));
            }
        }
        Ok(removed?)
    }

    /// Remove the staged files of ingests that are not in `keep` (topic id in hex, directory), which a crash may have
    /// left behind. Return how many ingests were removed. Blocks on the disk.
    ///
    /// # Errors
    /// The first `Storage` error; the function still removes all files that it can.
    pub fn collect_ingests(&self, keep: &[(String, String)]) -> Result<usize, IngestError> {
        let mut removed = 0;
        let mut failed = None;
        for dir in self.dirs.iter() {
            let Ok(log_dir) = dir.online() else { continue };
            let found = log_dir.staged_ingests().unwrap_or_else(|error| {
                failed.get_or_insert(error);
                Vec::new()
            });
            for (topic, directory) in found {
                if keep.iter().any(|(t, d)| *t == topic && *d == directory) {
                    continue;
                }
                // Also withdraw the ingest's announcements, because a leader may already announce it to its followers.
                let gone = log_dir.remove_ingest(&topic, &directory);
                self.forget_attaches(&topic, &directory, gone.is_err());
                match gone {
                    Ok(()) => removed += 1,
                    Err(error) => {
                        failed.get_or_insert(error);
                    }
                }
            }
        }
        failed.map_or(Ok(removed), |error| Err(error.into()))
    }
}
