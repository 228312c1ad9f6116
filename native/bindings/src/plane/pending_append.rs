//! An append that Python started and that is not committed yet. Its completion goes to the control queue.

use std::sync::Arc;

use pybroker_replica::{Commit, PartitionError};

use super::control_queue::{AppendCompletion, ControlQueue};
use crate::errors::partition_code;

/// Wait for `commit`, then queue `completed` or the failure. If the result is already known, return it instead of
/// queuing it.
pub(crate) fn watch(
    queue: &Arc<ControlQueue>,
    completed: AppendCompletion,
    commit: Commit,
) -> Option<AppendCompletion> {
    let outcome = move |decided: Result<(), PartitionError>| match decided {
        Ok(()) => completed,
        Err(error) => failed(completed.token, &error),
    };
    let told = Arc::clone(queue);
    let decided = commit.tell(move |decided| told.complete(outcome(decided)))?;
    Some(outcome(decided))
}

/// Return the report of a failed append.
pub(crate) fn failed(token: u64, error: &PartitionError) -> AppendCompletion {
    AppendCompletion {
        token,
        error_code: partition_code(error),
        base_offset: -1,
        log_append_time: -1,
    }
}
