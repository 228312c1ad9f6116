//! An append that Python started, on its way to its commit. Its completion goes into the control queue.

use std::sync::Arc;

use pybroker_replica::{Commit, PartitionError};

use super::control_queue::{Completed, ControlQueue};
use crate::errors::partition_code;

/// Watches `commit`; `completed` is what to report if it succeeds. `Some`: that is known at once, and the queue does not
/// hear of it.
pub(crate) fn watch(
    queue: &Arc<ControlQueue>,
    completed: Completed,
    commit: Commit,
) -> Option<Completed> {
    let outcome = move |decided: Result<(), PartitionError>| match decided {
        Ok(()) => completed,
        Err(error) => failed(completed.token, &error),
    };
    let told = Arc::clone(queue);
    let decided = commit.tell(move |decided| told.complete(outcome(decided)))?;
    Some(outcome(decided))
}

/// What to report for an append that failed.
pub(crate) fn failed(token: u64, error: &PartitionError) -> Completed {
    Completed {
        token,
        error_code: partition_code(error),
        base_offset: -1,
        log_append_time: -1,
    }
}
