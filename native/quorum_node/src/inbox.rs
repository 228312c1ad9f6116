//! The queue of a node's inputs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use pybroker_metadata_log::LogError;
use pybroker_quorum::{EpochEnd, ReplicaKey};

use crate::wire::Incoming;

#[derive(Debug)]
pub(crate) enum Input {
    Request {
        handle: u64,
        incoming: Box<Incoming>,
    },
    Response {
        correlation: u64,
        body: Bytes,
    },
    /// The request has failed. `refused`: whether the node's port refused the connection.
    Failed {
        correlation: u64,
        refused: bool,
    },
    /// The node's port refuses connections.
    Refused {
        peer: i32,
    },
    Propose {
        proposal: u64,
        epoch: i32,
        records: u32,
        data: Bytes,
    },
    AddVoter {
        proposal: u64,
        voter: ReplicaKey,
    },
    RemoveVoter {
        proposal: u64,
        voter: ReplicaKey,
    },
    Resign {
        successor: Option<i32>,
    },
    /// Answer all waiting fetches.
    AnswerFetches,
    /// This node has completed a snapshot.
    SnapshotWritten(EpochEnd),
    /// The owner has taken delivered records.
    Delivered,
    Flushed {
        ticket: u64,
    },
    StateWritten {
        ticket: u64,
    },
    StorageFailed(LogError),
    /// The disk thread has finished all jobs before this one.
    Drained,
    Stop,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Inbox {
    inner: Arc<(Mutex<Vec<Input>>, Condvar)>,
}

impl Inbox {
    pub(crate) fn push(&self, input: Input) {
        let (inputs, arrived) = &*self.inner;
        inputs.lock().push(input);
        arrived.notify_one();
    }

    /// Take all inputs. If there are none, wait up to `wait` for the first one.
    pub(crate) fn take(&self, wait: Duration) -> Vec<Input> {
        let (inputs, arrived) = &*self.inner;
        let mut inputs = inputs.lock();
        if inputs.is_empty() {
            arrived.wait_for(&mut inputs, wait);
        }
        std::mem::take(&mut *inputs)
    }
}
