//! How long the codec may hold the GIL for one message.

use std::cell::Cell;
use std::time::Duration;

use pyo3::prelude::*;

use super::sink::Failure;

/// Elements between two pauses, about a millisecond of work.
const ELEMENTS_A_STEP: u32 = 1_000;
/// A waiting thread needs a moment to take the GIL; without the pause this one would have it back first.
const PAUSE: Duration = Duration::from_micros(50);

/// Counts elements while a message is decoded or encoded.
pub(super) struct Pace {
    left: Cell<u32>,
    at_end: AtEnd,
}

/// What happens when the elements are used up.
#[derive(Clone, Copy)]
enum AtEnd {
    /// Never: `u32::MAX` elements do not fit a frame.
    GoOn,
    /// Others get the GIL, and the work goes on.
    Pause,
    /// The work fails with [`Failure::TooMany`].
    Refuse,
}

impl Pace {
    /// For a request's message: `paused` on a thread of its own.
    pub(super) const fn of_request(paused: bool) -> Pace {
        if paused {
            Pace::paused()
        } else {
            Pace::unbroken()
        }
    }

    /// In one go.
    pub(super) const fn unbroken() -> Pace {
        Pace::new(u32::MAX, AtEnd::GoOn)
    }

    /// For a thread of its own: lets go of the GIL again and again.
    const fn paused() -> Pace {
        Pace::new(ELEMENTS_A_STEP, AtEnd::Pause)
    }

    /// At most so many elements.
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
