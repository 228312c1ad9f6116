//! Open ingests for ListIngests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;

use crate::{IngestName, Replicas};

/// An open ingest as ListIngests shows it.
#[derive(Clone, Debug)]
pub struct IngestState {
    /// The ingest's name.
    pub name: IngestName,
    /// The ingest's epoch.
    pub epoch: i32,
    /// Time of the last append, or of the start of the ingest if there was none.
    pub touched_ms: i64,
    /// Number of attempts that have staged records.
    pub writers: usize,
    /// Index, records and bytes of each partition, summed over all attempts.
    pub partitions: Vec<(i32, i64, u64)>,
}

impl Replicas {
    /// Return the open ingests for ListIngests.
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
