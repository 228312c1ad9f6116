//! How much there was lately: Kafka's rate over windows of time, as one atomic number a window.
//!
//! Kafka keeps `quota.window.num` windows of `quota.window.size.seconds`. Its rate is what is in them, by the time from
//! the beginning of the oldest one that could be among them until now, whether there was anything in it or not: with the
//! defaults ten seconds and what has passed of the present one (`Rate` and `SampledStat` of Kafka's clients).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A slot is the number of its window, modulo 2^24, above what was counted in it.
const SUM_BITS: u32 = 40;
const SUM_MAX: u64 = (1 << SUM_BITS) - 1;
const NUMBER_MAX: u64 = (1 << (u64::BITS - SUM_BITS)) - 1;

/// How many windows are kept, and how long each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// `quota.window.num`; 1 at least.
    pub count: usize,
    /// `quota.window.size.seconds`, in milliseconds; 1 at least.
    pub length_ms: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Windows {
            count: 11,
            length_ms: 1_000,
        }
    }
}

impl Windows {
    /// The time that a rate is measured over: a window at least.
    fn elapsed_ms(self, at_ms: u64) -> u64 {
        let whole = (self.count as u64 - 1) * self.length_ms;
        (whole + at_ms % self.length_ms).max(self.length_ms)
    }

    /// What may come at once at a rate a second: Kafka's most in all windows but the present one.
    pub(super) fn burst(self, per_second: f64) -> f64 {
        per_second * ((self.count as u64 - 1).max(1) * self.length_ms) as f64 / 1e3
    }
}

/// What was counted, by window. Any thread adds to it; none waits for another.
#[derive(Debug)]
pub(super) struct Samples {
    windows: Windows,
    slots: Box<[AtomicU64]>,
}

impl Samples {
    pub(super) fn new(windows: Windows) -> Self {
        Samples {
            windows,
            // No window has the highest number so soon: nothing counts.
            slots: (0..windows.count)
                .map(|_| AtomicU64::new(NUMBER_MAX << SUM_BITS))
                .collect(),
        }
    }

    pub(super) fn windows(&self) -> Windows {
        self.windows
    }

    /// Counts in the present window.
    pub(super) fn add(&self, amount: u64, at_ms: u64) {
        let (slot, number) = self.place(at_ms);
        let mut seen = slot.load(Relaxed);
        loop {
            let before = if seen >> SUM_BITS == number {
                seen & SUM_MAX
            } else {
                0
            };
            let sum = before.saturating_add(amount).min(SUM_MAX);
            match slot.compare_exchange_weak(seen, number << SUM_BITS | sum, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    fn place(&self, at_ms: u64) -> (&AtomicU64, u64) {
        let window = at_ms / self.windows.length_ms;
        let place = (window % self.slots.len() as u64) as usize;
        (&self.slots[place], window & NUMBER_MAX)
    }

    /// What is in all windows.
    pub(super) fn sum(&self, at_ms: u64) -> u64 {
        let window = at_ms / self.windows.length_ms;
        self.slots
            .iter()
            .map(|slot| slot.load(Relaxed))
            .filter(|seen| {
                let age = window.wrapping_sub(seen >> SUM_BITS) & NUMBER_MAX;
                age < self.slots.len() as u64
            })
            .map(|seen| seen & SUM_MAX)
            .sum()
    }

    /// Kafka's rate, a second.
    pub(super) fn rate(&self, at_ms: u64) -> f64 {
        self.rate_of(self.sum(at_ms), at_ms)
    }

    fn rate_of(&self, sum: u64, at_ms: u64) -> f64 {
        sum as f64 * 1e3 / self.windows.elapsed_ms(at_ms) as f64
    }

    /// How long to wait until so much is within `bound` a second, in milliseconds: Kafka's
    /// `(rate − bound) / bound × time`. 0: it is within it.
    pub(super) fn excess_ms(&self, sum: u64, bound: f64, at_ms: u64) -> u32 {
        let rate = self.rate_of(sum, at_ms);
        if rate <= bound {
            return 0;
        }
        let wait = (rate - bound) / bound * self.windows.elapsed_ms(at_ms) as f64;
        // The answer's field is an INT.
        wait.round().min(f64::from(i32::MAX)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_over_ten_windows_and_the_present_one() {
        let samples = Samples::new(Windows::default());
        assert_eq!(samples.sum(0), 0);
        samples.add(1_000, 500);
        assert_eq!(samples.rate(500), 1e6 / 10_500.0);
        assert_eq!(samples.rate(10_999), 1e6 / 10_999.0);
        assert_eq!(samples.rate(11_000), 0.0, "its window is the twelfth");
        samples.add(7, 11_400);
        assert_eq!(samples.sum(11_400), 7, "its slot is used again");
    }

    #[test]
    fn the_wait_is_kafkas() {
        let samples = Samples::new(Windows::default());
        // 20,000 in 10 s against 1,000 a second: ten seconds more.
        assert_eq!(samples.excess_ms(20_000, 1_000.0, 1_000), 10_000);
        assert_eq!(samples.excess_ms(10_000, 1_000.0, 1_000), 0);
        assert_eq!(
            samples.excess_ms(u64::MAX, 1e-9, 1_000),
            i32::MAX as u32,
            "no overflow"
        );
    }

    #[test]
    fn one_window_alone_is_a_window_long() {
        let samples = Samples::new(Windows {
            count: 1,
            length_ms: 2_000,
        });
        samples.add(10, 4_000);
        assert_eq!(samples.rate(4_000), 5.0);
        assert_eq!(samples.rate(5_999), 5.0);
        assert_eq!(samples.rate(6_000), 0.0);
    }

    #[test]
    fn threads_lose_nothing() {
        let samples = Samples::new(Windows::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|step| samples.add(1, step / 2_000 * 1_000)));
            }
        });
        assert_eq!(samples.sum(4_999), 40_000);
    }

    #[test]
    fn more_than_a_window_can_hold_stays_the_most() {
        let samples = Samples::new(Windows::default());
        samples.add(u64::MAX, 0);
        samples.add(1, 0);
        assert_eq!(samples.sum(0), SUM_MAX);
    }
}
