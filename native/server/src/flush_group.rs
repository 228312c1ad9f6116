//! Group flush of one data thread's appends. The thread wakes the journal when it has no more work, not for each
//! append, so that one flush covers all of them.

use std::time::{Duration, Instant};

use pybroker_replica::HeldFlushes;

/// Maximum delay of a flush if the thread is never idle: about the duration of a small flush.
const HELD_MAX: Duration = Duration::from_micros(200);

/// Flushes that are held back.
#[derive(Debug, Default)]
pub(crate) struct FlushGroup {
    held: HeldFlushes,
    /// Start of the turn that requested the first flush.
    since: Option<Instant>,
}

impl FlushGroup {
    /// Return the collection in which appends register their flushes.
    #[inline]
    pub(crate) fn held(&mut self) -> &mut HeldFlushes {
        &mut self.held
    }

    /// End the turn of a connection that began at `begun`. Start the flushes if they have been held back for too long.
    #[inline]
    pub(crate) fn end_turn(&mut self, begun: Instant, now: Instant) {
        if !self.held.is_empty() && self.is_late(begun, now) {
            self.begin();
        }
    }

    fn is_late(&mut self, begun: Instant, now: Instant) -> bool {
        let since = *self.since.get_or_insert(begun);
        now.saturating_duration_since(since) >= HELD_MAX
    }

    /// Start the flushes. [`Self::end_turn`] calls this if they are late, and the data thread before it sleeps.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.held.begin();
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_never_idle_begins_after_a_while() {
        let begun = Instant::now();
        let mut group = FlushGroup::default();
        group.end_turn(begun, begun + HELD_MAX);
        assert_eq!(group.since, None, "nothing is held");
        assert!(!is_late(&mut group, begun, begun));
        let later = begun + HELD_MAX / 2;
        assert!(!is_late(&mut group, later, later));
        assert!(is_late(&mut group, later, begun + HELD_MAX));
        assert!(!is_late(&mut group, later, later), "counted anew");
    }

    fn is_late(group: &mut FlushGroup, begun: Instant, now: Instant) -> bool {
        let late = group.is_late(begun, now);
        if late {
            group.begin();
        }
        late
    }
}
