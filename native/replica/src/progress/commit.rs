//! A produce that waits for its commit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Progress, Registration};
use crate::PartitionError;

/// Ready when an append is committed; see `Partition::committed`.
#[derive(Debug)]
#[must_use]
pub struct Commit {
    progress: Arc<Progress>,
    last_offset: i64,
    step_downs: u64,
    registration: Option<Registration>,
}

impl Commit {
    /// `step_downs`: of `progress`, when the record was appended.
    pub(crate) fn new(progress: Arc<Progress>, last_offset: i64, step_downs: u64) -> Self {
        Self {
            progress,
            last_offset,
            step_downs,
            registration: None,
        }
    }

    /// Whether it is decided already, without waiting.
    pub fn try_get(&self) -> Option<Result<(), PartitionError>> {
        match self
            .progress
            .check_committed(self.last_offset, self.step_downs)
        {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Future for Commit {
    type Output = Result<(), PartitionError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(decided) = this.try_get() {
            this.registration = None;
            return Poll::Ready(decided);
        }
        if this
            .registration
            .as_ref()
            .is_some_and(|registration| registration.update(context.waker()))
        {
            return Poll::Pending;
        }
        this.registration = this
            .progress
            .high_watermark
            .register(this.last_offset, context.waker());
        // Again after registering: a stop that came before it has woken nobody here.
        match this.try_get() {
            Some(decided) => {
                this.registration = None;
                Poll::Ready(decided)
            }
            None if this.registration.is_none() => {
                // It passed the offset between the two looks and went back (a truncation): come again.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}
