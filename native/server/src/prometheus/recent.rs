//! What scrapes remember of the ones before: quantiles are of the last minute or two, not of the broker's whole life.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pybroker_storage::Counts;

/// Quantiles are of what came in this time at least (and up to twice of it), as long as somebody scrapes.
const WINDOW: Duration = Duration::from_secs(60);

/// Which distribution: a name, and the place of an API key.
pub(super) type Key = (&'static str, usize);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// What was there at the begin of the window, and half-way.
    before: HashMap<Key, Counts>,
    half_way: HashMap<Key, Counts>,
    /// When `half_way` was taken.
    taken: Option<Instant>,
    /// Processor time of each data thread, in nanoseconds, when it was last looked at, and when that was.
    busy: Option<(Instant, Vec<u64>)>,
}

/// One scrape: which counts it has seen.
pub(super) struct Scrape<'a> {
    recent: &'a mut Recent,
    /// Kept for later scrapes, if it is time.
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

    /// The share of time in which each thread did nothing since this was asked last: 1 at first. `busy`: nanoseconds of
    /// processor time.
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
    /// Those of the window.
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
