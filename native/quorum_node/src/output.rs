//! What the owner of a node gets.

use bytes::Bytes;
use pybroker_metadata_log::Endpoint;
use pybroker_quorum::{EpochEnd, Refusal, ReplicaKey};

/// Something for the owner, in the order in which it happened.
#[derive(Debug, Clone)]
pub enum Output {
    /// Send a request to a node. Its response, or that it failed, comes back with the correlation.
    Send {
        /// Node id, or one of `bootstrap`.
        peer: i32,
        /// The node's address, if the log or a message names it.
        address: Option<Endpoint>,
        /// For the response.
        correlation: u64,
        /// API key.
        api_key: i16,
        /// Version.
        api_version: i16,
        /// Body of the request.
        body: Bytes,
    },
    /// Answer a request.
    Respond {
        /// As it was received.
        handle: u64,
        /// Body of the response.
        body: Bytes,
    },
    /// A snapshot replaces the image: its records follow, then committed batches.
    SnapshotBegins {
        /// The end of the log that it replaces.
        id: EpochEnd,
        /// Append time of the last record in it.
        timestamp_ms: i64,
    },
    /// Records of the snapshot.
    SnapshotRecords(Vec<Bytes>),
    /// The snapshot is complete.
    SnapshotEnds(EpochEnd),
    /// A committed batch. One of control records has no records.
    Committed {
        /// Offset of the first record.
        base_offset: i64,
        /// Offset after the last one.
        end_offset: i64,
        /// Epoch of the leader that wrote it.
        epoch: i32,
        /// When that was.
        timestamp_ms: i64,
        /// Values of the records.
        records: Vec<Bytes>,
    },
    /// A proposal or a change of voters is decided.
    Decided {
        /// As it was given.
        proposal: u64,
        /// How.
        outcome: Outcome,
    },
    /// The epoch or its leader changed. That this node leads comes when all records before its epoch were delivered.
    Leader {
        /// The epoch.
        epoch: i32,
        /// Its leader, if there is one that has not resigned.
        leader: Option<i32>,
    },
    /// The voters changed; in force from their append on.
    Voters {
        /// All of them.
        voters: Vec<ReplicaKey>,
        /// Known addresses of them.
        endpoints: Vec<Endpoint>,
    },
    /// A message could not be read, or a snapshot is damaged: for the log of the process.
    Warning(String),
    /// The disk failed, or the log is damaged: the node does nothing any more.
    Failed(String),
}

/// The outcome of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its records are committed, and have been delivered.
    Committed {
        /// Offset of the first record.
        base_offset: i64,
        /// Offset after the last one.
        end_offset: i64,
    },
    /// It was not appended.
    Refused(Refusal),
    /// The leader was deposed or resigned before it knew (`NOT_CONTROLLER`); it may still be committed.
    Unknown,
}

impl Output {
    /// Bytes that it holds, about.
    pub(crate) fn size(&self) -> usize {
        const OVERHEAD: usize = 100;
        let records = |records: &[Bytes]| -> usize {
            records.iter().map(|record| record.len() + OVERHEAD).sum()
        };
        OVERHEAD
            + match self {
                Self::Send { body, .. } | Self::Respond { body, .. } => body.len(),
                Self::SnapshotRecords(values) => records(values),
                Self::Committed {
                    records: values, ..
                } => records(values),
                _ => 0,
            }
    }

    /// Whether it is delivered in bounded amounts.
    pub(crate) fn is_delivery(&self) -> bool {
        matches!(self, Self::SnapshotRecords(_) | Self::Committed { .. })
    }
}
