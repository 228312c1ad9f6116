//! What is open here, for ListIngests and for metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;

use super::{IngestName, Ingests};
use crate::Replicas;

/// An open ingest as ListIngests shows it.
#[derive(Clone, Debug)]
pub struct IngestState {
    /// Its name.
    pub name: IngestName,
    /// Its epoch.
    pub epoch: i32,
    /// When it last took records, or began.
    pub touched_ms: i64,
    /// Attempts that have staged something.
    pub writers: usize,
    /// Records and bytes by partition, every attempt counted.
    pub partitions: Vec<(i32, i64, u64)>,
}

/// Figures for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestFigures {
    /// Ingests that are open.
    pub open: usize,
    /// Attempts that have staged something, each counted for each partition.
    pub attempts: usize,
    /// Bytes that are staged now.
    pub staged_bytes: u64,
    /// Bytes staged since the start.
    pub appended_bytes: u64,
    /// Partitions attached since the start.
    pub attached_partitions: u64,
}

impl Ingests {
    /// For metrics.
    pub fn figures(&self) -> IngestFigures {
        IngestFigures {
            open: self.open.read().len(),
            attempts: self.attempts.load(Ordering::Relaxed),
            staged_bytes: self.staged_bytes.load(Ordering::Relaxed),
            appended_bytes: self.appended_bytes.load(Ordering::Relaxed),
            attached_partitions: self.commits.load(Ordering::Relaxed),
        }
    }
}

impl Replicas {
    /// Open ingests, for ListIngests.
    pub fn list_ingests(&self) -> Vec<IngestState> {
        let open: Vec<_> = self.ingests.open.read().values().cloned().collect();
        open.iter()
            .map(|ingest| {
                let attempts: Vec<_> = ingest
                    .attempts
                    .lock()
                    .iter()
                    .map(|(&(partition, ..), attempt)| (partition, Arc::clone(attempt)))
                    .collect();
                let mut partitions: HashMap<i32, (i64, u64)> = HashMap::new();
                for (partition, attempt) in &attempts {
                    let sums = partitions.entry(*partition).or_default();
                    sums.0 += attempt.rows.load(Ordering::Relaxed);
                    sums.1 += attempt.bytes.load(Ordering::Relaxed);
                }
                let mut writers: Vec<_> = attempts
                    .iter()
                    .map(|(_, one)| (one.writer, one.attempt))
                    .collect();
                writers.sort_unstable();
                writers.dedup();
                let mut partitions: Vec<_> = partitions
                    .into_iter()
                    .map(|(partition, (rows, bytes))| (partition, rows, bytes))
                    .collect();
                partitions.sort_unstable();
                IngestState {
                    name: ingest.new.name.clone(),
                    epoch: ingest.new.epoch,
                    touched_ms: ingest.touched_ms.load(Ordering::Relaxed),
                    writers: writers.len(),
                    partitions,
                }
            })
            .collect()
    }
}
