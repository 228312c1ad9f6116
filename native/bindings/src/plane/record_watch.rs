//! A wait of Python code for more records of a partition. The watch is its own waker and reports through the control
//! queue.

use std::sync::Arc;
use std::task::{Wake, Waker};

use pybroker_replica::{Isolation, Partition, Registration};

use super::control_queue::{AppendCompletion, ControlQueue};

struct RecordWatch {
    queue: Arc<ControlQueue>,
    token: u64,
}

impl RecordWatch {
    fn tell(&self) {
        self.queue.complete(AppendCompletion {
            token: self.token,
            error_code: 0,
            base_offset: -1,
            log_append_time: -1,
        });
    }
}

impl Wake for RecordWatch {
    fn wake(self: Arc<Self>) {
        self.tell();
    }
}

/// Report once to the queue, when records beyond `bound` are readable or the partition stops. If this returns no
/// registration, the report is already in the queue.
pub(crate) fn start(
    queue: &Arc<ControlQueue>,
    token: u64,
    partition: Option<&Partition>,
    isolation: Isolation,
    bound: i64,
) -> Option<Registration> {
    let watch = Arc::new(RecordWatch {
        queue: Arc::clone(queue),
        token,
    });
    let registration = partition
        .and_then(|partition| partition.watch(isolation, bound, &Waker::from(Arc::clone(&watch))));
    if registration.is_none() {
        watch.tell();
    }
    registration
}
