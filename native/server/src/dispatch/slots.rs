//! Replies of one connection in the order of its requests.
//!
//! Produces are appended when they arrive and wait here for their commit; other requests run when they reach the head.
//! The ring is bounded by [`SLOTS_MAX`](crate::limits::SLOTS_MAX) and by the bytes it holds.

use std::collections::VecDeque;
use std::time::Instant;

use crate::api::k00_produce::PendingProduce;
use crate::api::k01_fetch::PendingFetch;
use crate::api::k08_offset_commit::PendingOffsetCommit;
use crate::api::large_request::PendingLarge;
use crate::api::pool_answer::PendingPoolAnswer;
use crate::api::to_control_plane::PendingControl;
use crate::metrics::Moments;
use crate::net::frame::OwnedFrame;

/// A request that was read and not answered yet.
pub(crate) enum Slot {
    /// A Produce that was answered out of turn.
    Ready(Box<ReadyReply>),
    /// A Produce that is appended, or being appended by another thread, and waits for its commit.
    Produce(Box<PendingProduce>),
    /// A Fetch at the head that waits for records or for the disk.
    Fetch(Box<PendingFetch>),
    /// An OffsetCommit at the head that waits for the disk or for replicas.
    OffsetCommit(Box<PendingOffsetCommit>),
    /// A request at the head that a pool processes.
    Pool(Box<PendingPoolAnswer>),
    /// A large request at the head that another thread answers.
    Large(Box<PendingLarge>),
    /// A request at the head that the control plane processes, or that waits for room in its queue.
    Control(Box<PendingControl>),
    /// A frame that waits until it is at the head.
    Deferred {
        frame: OwnedFrame,
        received: Instant,
        /// Whether the frame is a Produce behind an earlier Produce that is not appended yet.
        produce: bool,
    },
}

/// The whole reply frame of a Produce.
pub(crate) struct ReadyReply {
    pub(crate) reply: Vec<u8>,
    pub(crate) version: i16,
    pub(crate) moments: Moments,
}

/// Ring of the requests of one connection.
#[derive(Default)]
pub(crate) struct Slots {
    ring: VecDeque<Slot>,
    /// Bytes of frames and replies in the ring.
    bytes: usize,
    /// Number of Produce requests that are not appended yet. No later one may overtake them.
    unappended: usize,
}

impl Slots {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Return the memory held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Return whether the request at the head has not started.
    pub(crate) fn head_is_deferred(&self) -> bool {
        matches!(self.ring.front(), Some(Slot::Deferred { .. }))
    }

    /// Return whether later Produces must wait.
    pub(crate) fn hold_produces_back(&self) -> bool {
        self.unappended > 0
    }

    pub(crate) fn push(&mut self, slot: Slot) {
        self.bytes += slot.bytes();
        self.unappended += usize::from(slot.is_unappended());
        self.ring.push_back(slot);
    }

    pub(crate) fn pop(&mut self) -> Option<Slot> {
        let slot = self.ring.pop_front()?;
        self.bytes -= slot.bytes();
        self.unappended -= usize::from(slot.is_unappended());
        Some(slot)
    }

    /// Put back a slot that was popped and is not finished.
    pub(crate) fn put_back(&mut self, slot: Slot) {
        self.bytes += slot.bytes();
        self.unappended += usize::from(slot.is_unappended());
        self.ring.push_front(slot);
    }

    /// Return the deadline of the request at the head.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.ring.front()? {
            Slot::Produce(pending) => pending.deadline(),
            Slot::Fetch(pending) => pending.deadline(),
            Slot::OffsetCommit(pending) => Some(pending.deadline),
            _ => None,
        }
    }
}

impl Slot {
    fn is_unappended(&self) -> bool {
        match self {
            Slot::Produce(pending) => pending.is_unappended(),
            Slot::Deferred { produce, .. } => *produce,
            _ => false,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Slot::Ready(ready) => ready.reply.capacity(),
            Slot::Produce(pending) => pending.bytes(),
            Slot::Fetch(pending) => pending.bytes(),
            Slot::OffsetCommit(pending) => pending.bytes(),
            Slot::Pool(pending) => pending.bytes,
            Slot::Large(pending) => pending.bytes,
            Slot::Control(pending) => pending
                .unsent
                .as_ref()
                .map_or(0, |request| request.body.len()),
            Slot::Deferred { frame, .. } => frame.capacity(),
        }
    }
}
