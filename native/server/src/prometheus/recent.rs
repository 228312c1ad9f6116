//! State between scrapes: quantiles cover the last minute or two, not the time since the start.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pybroker_storage::Counts;

/// Quantiles cover at least this time, and up to twice as long, while scrapes continue.
const WINDOW: Duration = Duration::from_secs(60);

/// Key of a distribution: its name, and the slot of an API key.
pub(super) type Key = (&'static str, usize);

/// Distributions of earlier scrapes.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// Counts at the start of the window, and in the middle of it.
    before: HashMap<Key, Counts>,
    half_way: HashMap<Key, Counts>,
    /// When `half_way` was taken.
    taken: Option<Instant>,
    /// Processor time of each data thread in nanoseconds at the last scrape, and the time of that scrape.
    busy: Option<(Instant, Vec<u64>)>,
}

/// One scrape, with the counts that it has read.
pub(super) struct Scrape<'a> {
    recent: &'a mut Recent,
    /// Counts kept for later scrapes, if the window advances.
    kept: Option<HashMap<Key, Counts>>,
}

impl Recent {
    pub(super) fn scrape(&mut self, now: Instant) -> Scrape<'_> {
        let due = self
            .taken
            .is_none_or(|taken| now.saturating_duration_since(taken) >= WINDOW);
        if due {
            self.taken = Some(now);
        }
        Scrape {
            recent: self,
            kept: due.then(HashMap::new),
        }
    }

    /// Return each thread's idle share of the time since the last call; the first call returns 1. `busy` has each
    /// thread's processor time in nanoseconds.
    pub(super) fn idle(&mut self, now: Instant, busy: Vec<u64>) -> Vec<f64> {
        let idle = match &self.busy {
            Some((then, before)) if before.len() == busy.len() => {
                let passed = now.saturating_duration_since(*then).as_nanos().max(1) as f64;
                let shares = busy.iter().zip(before);
                shares
                    .map(|(busy, before)| {
                        (1.0 - busy.saturating_sub(*before) as f64 / passed).clamp(0.0, 1.0)
                    })
                    .collect()
            }
            _ => vec![1.0; busy.len()],
        };
        self.busy = Some((now, busy));
        idle
    }
}

impl Scrape<'_> {
    /// Return the counts within the window.
    pub(super) fn since(&mut self, key: Key, counts: &Counts) -> Counts {
        if let Some(kept) = &mut self.kept {
            kept.insert(key, counts.clone());
        }
        match self.recent.before.get(&key) {
            Some(before) => counts.since(before),
            None => counts.clone(),
        }
    }

    pub(super) fn end(self) {
        if let Some(kept) = self.kept {
            self.recent.before = core::mem::replace(&mut self.recent.half_way, kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pybroker_storage::Distribution;

    #[test]
    fn what_is_old_leaves_the_window() {
        let (mut recent, all) = (Recent::default(), Distribution::default());
        let start = Instant::now();
        let mut counted = Vec::new();
        for minute in 0..4 {
            all.record(1);
            let mut scrape = recent.scrape(start + WINDOW * minute);
            let mut counts = Counts::default();
            all.add_to(&mut counts);
            counted.push(scrape.since(("a", 0), &counts).count());
            scrape.end();
        }
        assert_eq!(counted, [1, 2, 2, 2]);
    }

    #[test]
    fn a_thread_is_idle_when_it_uses_no_processor() {
        let mut recent = Recent::default();
        let now = Instant::now();
        assert_eq!(recent.idle(now, vec![5, 7]), [1.0, 1.0]);
        let later = now + Duration::from_nanos(1_000);
        assert_eq!(recent.idle(later, vec![255, 7]), [0.75, 1.0]);
    }
}
