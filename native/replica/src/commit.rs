//! A produce that waits for its commit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::{AppendInfo, Partition, PartitionError};

/// Ready when an append is committed; see [`Partition::committed`].
#[derive(Debug)]
#[must_use]
pub struct Commit {
    partition: Arc<Partition>,
    last_offset: i64,
    leader_epoch: i32,
}

impl Commit {
    pub(crate) fn new(partition: Arc<Partition>, appended: &AppendInfo) -> Self {
        Self {
            partition,
            last_offset: appended.last_offset,
            leader_epoch: appended.leader_epoch,
        }
    }
}

impl Future for Commit {
    type Output = Result<(), PartitionError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.partition.high_watermark() > this.last_offset
            && this.partition.leader_epoch() == this.leader_epoch
        {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(Err(PartitionError::NotLeader))
    }
}
