//! Outputs of a node for its owner.

use bytes::Bytes;
use pybroker_metadata_log::Endpoint;
use pybroker_quorum::{EpochEnd, Refusal, ReplicaKey};

/// An output for the owner. Outputs come in the order in which they happened.
#[derive(Debug, Clone)]
pub enum Output {
    /// Send a request to a node. The owner passes the response or the failure back with the correlation.
    Send {
        /// Node id, or one of `NodeSettings::bootstrap`.
        peer: i32,
        /// The node's address, if the log or a message names it.
        address: Option<Endpoint>,
        /// Identifies the request. The owner passes it back with the response.
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
        /// The handle of the request.
        handle: u64,
        /// Body of the response.
        body: Bytes,
    },
    /// A snapshot replaces the image. Its records follow, then committed batches.
    SnapshotBegins {
        /// The end of the log that it replaces.
        id: EpochEnd,
        /// Append time of the last record in the snapshot.
        timestamp_ms: i64,
    },
    /// Records of the snapshot.
    SnapshotRecords(Vec<Bytes>),
    /// The snapshot is complete.
    SnapshotEnds(EpochEnd),
    /// A committed batch. A batch of control records comes without records.
    Committed {
        /// Offset of the first record.
        base_offset: i64,
        /// Offset after the last one.
        end_offset: i64,
        /// Epoch of the leader that wrote it.
        epoch: i32,
        /// Append time of the batch's last record.
        timestamp_ms: i64,
        /// Values of the records.
        records: Vec<Bytes>,
    },
    /// A proposal or a change of voters is decided.
    Decided {
        /// The owner's name for the proposal.
        proposal: u64,
        /// The outcome.
        outcome: Outcome,
    },
    /// The epoch or its leader changed. A node that leads gets this output after all records before its epoch.
    Leader {
        /// The epoch.
        epoch: i32,
        /// The leader of the epoch, if it is known and has not resigned.
        leader: Option<i32>,
    },
    /// The voters changed. The new voter set took effect when it was appended.
    Voters {
        /// All voters.
        voters: Vec<ReplicaKey>,
        /// Known addresses of the voters.
        endpoints: Vec<Endpoint>,
    },
    /// A warning for the log of the process: an unreadable message or a damaged snapshot.
    Warning(String),
    /// The disk is full, with a description: the node neither votes nor leads until there is free space. `None`: there
    /// is free space again.
    Room(Option<String>),
    /// The disk failed, or the log is damaged. The node has halted.
    Failed(String),
}

/// The outcome of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The proposal's records are committed, and have been delivered.
    Committed {
        /// Offset of the first record.
        base_offset: i64,
        /// Offset after the last one.
        end_offset: i64,
    },
    /// The proposal was not appended.
    Refused(Refusal),
    /// The leader was deposed or resigned before it knew the outcome (`NOT_CONTROLLER`); the proposal may still be
    /// committed.
    Unknown,
}

impl Output {
    /// Return the approximate size in bytes.
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

    /// Return whether this output counts towards the limit of queued records.
    pub(crate) fn is_delivery(&self) -> bool {
        matches!(self, Self::SnapshotRecords(_) | Self::Committed { .. })
    }
}
