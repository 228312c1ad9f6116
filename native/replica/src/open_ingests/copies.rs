//! Copies of staged records to the other replicas, so that any later leader also has them.

use std::fmt::Debug;

use super::IngestName;

/// A chunk of an attempt's records for a partition, sent to another replica.
#[derive(Clone, Copy, Debug)]
pub struct StagedChunk<'a> {
    /// Name of the ingest.
    pub name: &'a IngestName,
    /// The ingest's epoch.
    pub epoch: i32,
    /// Partition index.
    pub partition: i32,
    /// Id of the writer.
    pub writer: i32,
    /// The writer's attempt.
    pub attempt: i64,
    /// Number of the first record within the attempt.
    pub sequence: i64,
    /// Complete batches. If empty, the request only asks how many records are staged.
    pub records: &'a [u8],
}

/// Sends staged records to other brokers.
pub trait StagedCopies: Debug + Send + Sync {
    /// Send a chunk to another broker, which stages it; return the number of records it has staged afterwards. The
    /// number is lower than expected if earlier records are missing there. Waits for the response.
    ///
    /// # Errors
    /// The reason, as readable text.
    fn send(&self, broker: i32, chunk: &StagedChunk<'_>) -> Result<i64, String>;
}
