//! Replies of one connection in the order of its requests.
//!
//! Produces are appended when they arrive and wait here for their commit; every other request runs when it reaches
//! the head. The ring is bounded by [`SLOTS_MAX`](crate::limits::SLOTS_MAX) and by the bytes it holds.

use std::collections::VecDeque;
use std::time::Instant;

use crate::api::k00_produce::PendingProduce;
use crate::api::k01_fetch::PendingFetch;
use crate::api::k08_offset_commit::PendingOffsetCommit;
use crate::api::large::PendingLarge;
use crate::api::pool_answer::PendingPoolAnswer;
use crate::api::to_control_plane::PendingControl;
use crate::frame::OwnFrame;
use crate::metrics::Moments;

/// A request that was read and not answered yet.
pub(crate) enum Slot {
    /// A Produce that was answered out of turn.
    Ready(Box<ReadyReply>),
    /// Appended, or being appended by another thread; waiting for the commit.
    Produce(Box<PendingProduce>),
    /// At the head: waiting for bytes, or for the disk.
    Fetch(Box<PendingFetch>),
    /// At the head: waiting for the disk or for replicas.
    OffsetCommit(Box<PendingOffsetCommit>),
    /// At the head: a pool works on it.
    Pool(Box<PendingPoolAnswer>),
    /// At the head: another thread answers it.
    Large(Box<PendingLarge>),
    /// At the head: the control plane has it, or shall get it.
    Control(Box<PendingControl>),
    /// Waits until it is at the head; the frame's content.
    Deferred {
        frame: OwnFrame,
        received: Instant,
        /// It is a Produce, kept back by one that is being appended elsewhere.
        produce: bool,
    },
}

/// Whole reply frames of a Produce.
pub(crate) struct ReadyReply {
    pub(crate) reply: Vec<u8>,
    pub(crate) version: i16,
    pub(crate) moments: Moments,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Slots {
    ring: VecDeque<Slot>,
    /// Bytes of frames and replies in the ring.
    bytes: usize,
    /// Produces among them that have not been appended yet: no other may overtake them.
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

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the request at the head has not begun.
    pub(crate) fn head_is_deferred(&self) -> bool {
        matches!(self.ring.front(), Some(Slot::Deferred { .. }))
    }

    /// Whether a later Produce must stay behind.
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

    /// Puts back what was popped and is not finished.
    pub(crate) fn put_back(&mut self, slot: Slot) {
        self.bytes += slot.bytes();
        self.unappended += usize::from(slot.is_unappended());
        self.ring.push_front(slot);
    }

    /// When the request at the head must be answered at the latest.
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
