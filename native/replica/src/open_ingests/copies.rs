//! Bringing what is staged here to the other replicas: whoever may lead after this broker has it as well.

use std::fmt::Debug;

use super::IngestName;

/// A piece of what an attempt has staged for a partition, as it is sent to another replica.
#[derive(Clone, Copy, Debug)]
pub struct StagedChunk<'a> {
    /// The ingest.
    pub name: &'a IngestName,
    /// Its epoch.
    pub epoch: i32,
    /// The partition.
    pub partition: i32,
    /// The writer.
    pub writer: i32,
    /// Its attempt.
    pub attempt: i64,
    /// Number of the first record among those of the attempt.
    pub sequence: i64,
    /// Whole batches; empty: only asks how much is there.
    pub records: &'a [u8],
}

/// The way to other brokers, as far as staged records are concerned.
pub trait StagedCopies: Debug + Send + Sync {
    /// Has another broker stage a piece; gives how many records of the attempt it has staged then, which are fewer than
    /// expected if records are missing before these. Waits for the answer.
    ///
    /// # Errors
    /// Why it did not, for people.
    fn send(&self, broker: i32, chunk: &StagedChunk<'_>) -> Result<i64, String>;
}
