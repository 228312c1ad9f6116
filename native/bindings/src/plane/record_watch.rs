//! Someone in Python waits for more records of a partition. It is its own waker; what it was woken for comes out of the
//! control queue.

use std::sync::Arc;
use std::task::{Wake, Waker};

use pybroker_replica::{Isolation, Partition, Registration};

use super::control_queue::{Completed, ControlQueue};

struct RecordWatch {
    queue: Arc<ControlQueue>,
    token: u64,
}

impl RecordWatch {
    fn tell(&self) {
        self.queue.complete(Completed {
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

/// Tells the queue once when more can be read than up to `bound`, or when the partition stops. Without a registration
/// it has been told already.
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
