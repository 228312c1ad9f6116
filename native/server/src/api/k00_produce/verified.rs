//! What is known of partitions in which a request would begin a transaction.

use pybroker_model::TopicIdPartition;
use pybroker_protocol::ErrorCode;
use pybroker_storage::AppendOrigin;

/// What the coordinator has said of partitions that no records of the transaction were in.
#[derive(Debug, Default)]
pub(super) struct Verified {
    pub(super) partitions: Vec<Asked>,
    /// They were to become part of it.
    pub(super) adds: bool,
    /// An error code for each; empty: there was no answer.
    pub(super) codes: Vec<i16>,
}

/// A partition that was asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) tip: TopicIdPartition,
    /// Where its log ended then.
    pub(super) end: i64,
}

impl Verified {
    /// What transactional records for a partition may do.
    pub(super) fn origin(&self, tip: TopicIdPartition) -> Result<AppendOrigin, ErrorCode> {
        let Some(at) = self.partitions.iter().position(|asked| asked.tip == tip) else {
            return Ok(AppendOrigin::Client);
        };
        match self.codes.get(at) {
            Some(0) if self.adds => Ok(AppendOrigin::Added(self.partitions[at].end)),
            Some(0) => Ok(AppendOrigin::Verified(self.partitions[at].end)),
            Some(&code) => Err(ErrorCode(code)),
            // Clients try again.
            None => Err(ErrorCode::NOT_ENOUGH_REPLICAS),
        }
    }
}
