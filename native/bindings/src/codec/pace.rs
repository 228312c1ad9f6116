//! Limit of the time for which the codec holds the GIL for one message.

use std::cell::Cell;
use std::time::Duration;

use pyo3::prelude::*;

use super::sink::Failure;

/// Number of elements between two pauses, about a millisecond of work.
const ELEMENTS_A_STEP: u32 = 1_000;
/// Length of a pause, in which a waiting thread can take the GIL. Without it, this thread would take the GIL again
/// first.
const PAUSE: Duration = Duration::from_micros(50);

/// Counter of the elements of a message.
pub(super) struct Pace {
    left: Cell<u32>,
    at_end: AtEnd,
}

/// What happens when the element budget is used up.
#[derive(Clone, Copy)]
enum AtEnd {
    /// The budget is never used up, because `u32::MAX` elements do not fit into a frame.
    GoOn,
    /// Release the GIL for other threads, then continue.
    Pause,
    /// Fail with [`Failure::TooMany`].
    Refuse,
}

impl Pace {
    /// Return the pace for a request. On a separate thread it is `paused`.
    pub(super) const fn of_request(paused: bool) -> Pace {
        if paused {
            Pace::paused()
        } else {
            Pace::unbroken()
        }
    }

    /// Return a pace without pauses.
    pub(super) const fn unbroken() -> Pace {
        Pace::new(u32::MAX, AtEnd::GoOn)
    }

    /// Return a pace for a separate thread, which releases the GIL repeatedly.
    const fn paused() -> Pace {
        Pace::new(ELEMENTS_A_STEP, AtEnd::Pause)
    }

    /// Return a pace with a maximum number of elements.
    pub(super) const fn at_most(elements: u32) -> Pace {
        Pace::new(elements, AtEnd::Refuse)
    }

    const fn new(left: u32, at_end: AtEnd) -> Pace {
        let left = Cell::new(left);
        Pace { left, at_end }
    }

    #[inline]
    pub(super) fn step(&self, py: Python<'_>) -> Result<(), Failure> {
        let left = self.left.get();
        if left > 0 {
            self.left.set(left - 1);
            return Ok(());
        }
        match self.at_end {
            AtEnd::GoOn => {}
            AtEnd::Pause => {
                self.left.set(ELEMENTS_A_STEP);
                py.detach(|| std::thread::sleep(PAUSE));
            }
            AtEnd::Refuse => return Err(Failure::TooMany),
        }
        Ok(())
    }
}
