//! Flushes of what one data thread has appended in a row: the journal is woken when the thread has nothing left to do,
//! not for each append, so that what came together is flushed together.

use std::time::{Duration, Instant};

use pybroker_replica::HeldFlushes;

/// How long a flush may be held back by a thread that is never idle; about what a small one takes.
const HELD_MAX: Duration = Duration::from_micros(200);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FlushGroup {
    held: HeldFlushes,
    /// When the turn began in which the first was asked for.
    since: Option<Instant>,
}

impl FlushGroup {
    /// Where appends leave their flushes.
    #[inline]
    pub(crate) fn held(&mut self) -> &mut HeldFlushes {
        &mut self.held
    }

    /// A connection's turn has ended that began at `begun`.
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

    /// There is nothing else to do.
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
