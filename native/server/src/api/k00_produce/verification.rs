//! The coordinator's answer about partitions in which a request begins a transaction.

use pybroker_model::TopicIdPartition;
use pybroker_protocol::ErrorCode;
use pybroker_storage::AppendOrigin;

/// The coordinator's answer about partitions without records of the transaction so far.
#[derive(Debug, Default)]
pub(super) struct Verification {
    pub(super) partitions: Vec<CheckedPartition>,
    /// Whether the question asked to add the partitions to the transaction.
    pub(super) adds: bool,
    /// An error code for each partition; empty if the coordinator did not answer.
    pub(super) codes: Vec<i16>,
}

/// A partition in the question to the coordinator.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckedPartition {
    pub(super) tip: TopicIdPartition,
    /// Log end offset at the time of the question.
    pub(super) end: i64,
}

impl Verification {
    /// Return how transactional records may be appended to the partition, or the error that refuses them.
    pub(super) fn origin(&self, tip: TopicIdPartition) -> Result<AppendOrigin, ErrorCode> {
        let Some(at) = self.partitions.iter().position(|asked| asked.tip == tip) else {
            return Ok(AppendOrigin::Client);
        };
        match self.codes.get(at) {
            Some(0) if self.adds => Ok(AppendOrigin::Added(self.partitions[at].end)),
            Some(0) => Ok(AppendOrigin::Verified(self.partitions[at].end)),
            Some(&code) => Err(ErrorCode(code)),
            // Clients retry this error.
            None => Err(ErrorCode::NOT_ENOUGH_REPLICAS),
        }
    }
}
