//! Recent usage: Kafka's rate over time windows, with one atomic number per window.
//!
//! Kafka keeps `quota.window.num` windows of `quota.window.size.seconds`. Its rate is the sum of all windows, divided
//! by the time since the start of the oldest possible window, even if that window has no samples. With the defaults
//! this time is ten seconds plus the elapsed part of the current window (`Rate` and `SampledStat` of Kafka's clients).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of low bits that hold the sum of a slot. The bits above hold the number of its window, modulo 2^24.
const SUM_BITS: u32 = 40;
const SUM_MAX: u64 = (1 << SUM_BITS) - 1;
const NUMBER_MAX: u64 = (1 << (u64::BITS - SUM_BITS)) - 1;

/// Number and length of the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// `quota.window.num`; at least 1.
    pub count: usize,
    /// `quota.window.size.seconds`, in milliseconds; at least 1.
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
    /// Return the position of a time, given as the time since the start of all windows.
    pub(super) fn at(self, passed: Duration) -> At {
        let ms = passed.as_millis() as u64;
        let (number, passed_ms) = (ms / self.length_ms, ms % self.length_ms);
        let whole = (self.count as u64 - 1) * self.length_ms;
        At {
            number: number & NUMBER_MAX,
            slot: (number % self.count as u64) as usize,
            elapsed_ms: (whole + passed_ms).max(self.length_ms),
        }
    }

    /// Return the burst at a rate per second: as in Kafka, the amount for all windows but the current one.
    pub(super) fn burst(self, per_second: f64) -> f64 {
        per_second * ((self.count as u64 - 1).max(1) * self.length_ms) as f64 / 1e3
    }
}

/// Position of a time among the windows. It is computed once and used for several reads and writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    /// Number of the current window, modulo 2^24.
    number: u64,
    slot: usize,
    /// Time by which the rate divides the sum: at least one window.
    elapsed_ms: u64,
}

/// Sums by window. Any thread adds to them without waiting.
#[derive(Debug)]
pub(super) struct Samples {
    windows: Windows,
    slots: Box<[AtomicU64]>,
    /// Number of a window (in the high bits) and the sum of the windows before it (in the low bits). The sum is cached,
    /// because most requests come in the same window as the previous one. If another thread has cached the sum already,
    /// a late addition to an earlier window counts from the next window on.
    before: AtomicU64,
}

impl Samples {
    pub(super) fn new(windows: Windows) -> Self {
        Samples {
            windows,
            // Slots start with the highest number, which no window reaches soon, so they count as empty.
            slots: (0..windows.count)
                .map(|_| AtomicU64::new(packed(NUMBER_MAX, 0)))
                .collect(),
            before: AtomicU64::new(packed(NUMBER_MAX, 0)),
        }
    }

    pub(super) fn windows(&self) -> Windows {
        self.windows
    }

    /// Add to the current window.
    pub(super) fn add(&self, amount: u64, at: At) {
        let slot = &self.slots[at.slot];
        let mut seen = slot.load(Relaxed);
        loop {
            let sum = sum_of(seen, at.number).saturating_add(amount);
            match slot.compare_exchange_weak(seen, packed(at.number, sum), Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Return the sum of all windows.
    pub(super) fn sum(&self, at: At) -> u64 {
        let seen = self.before.load(Relaxed);
        let before = if seen >> SUM_BITS == at.number {
            seen & SUM_MAX
        } else {
            self.sum_before(at)
        };
        before + sum_of(self.slots[at.slot].load(Relaxed), at.number)
    }

    /// Return the sum of all windows but the current one.
    #[cold]
    fn sum_before(&self, at: At) -> u64 {
        let is_before = |seen: &u64| {
            let age = at.number.wrapping_sub(seen >> SUM_BITS) & NUMBER_MAX;
            (1..self.slots.len() as u64).contains(&age)
        };
        let slots = self.slots.iter().map(|slot| slot.load(Relaxed));
        let sum = slots.filter(is_before).map(|seen| seen & SUM_MAX).sum();
        self.before.store(packed(at.number, sum), Relaxed);
        sum
    }

    /// Return Kafka's rate per second.
    pub(super) fn rate(&self, at: At) -> f64 {
        rate_of(self.sum(at), at)
    }
}

/// Return a slot's sum of a window.
fn sum_of(slot: u64, number: u64) -> u64 {
    if slot >> SUM_BITS == number {
        slot & SUM_MAX
    } else {
        0
    }
}

fn packed(number: u64, sum: u64) -> u64 {
    number << SUM_BITS | sum.min(SUM_MAX)
}

fn rate_of(sum: u64, at: At) -> f64 {
    sum as f64 * 1e3 / at.elapsed_ms as f64
}

/// Return the milliseconds until the usage is within `bound` per second: Kafka's `(rate − bound) / bound × time`; 0 if
/// it is.
pub(super) fn excess_ms(sum: u64, bound: f64, at: At) -> u32 {
    let rate = rate_of(sum, at);
    if rate <= bound {
        return 0;
    }
    let wait = (rate - bound) / bound * at.elapsed_ms as f64;
    // The response field is an INT.
    wait.round().min(f64::from(i32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> At {
        Windows::default().at(Duration::from_millis(ms))
    }

    #[test]
    fn a_rate_is_over_ten_windows_and_the_present_one() {
        let samples = Samples::new(Windows::default());
        assert_eq!(samples.sum(at(0)), 0);
        samples.add(1_000, at(500));
        assert_eq!(samples.rate(at(500)), 1e6 / 10_500.0);
        assert_eq!(samples.rate(at(10_999)), 1e6 / 10_999.0);
        assert_eq!(samples.rate(at(11_000)), 0.0, "its window is the twelfth");
        samples.add(7, at(11_400));
        assert_eq!(samples.sum(at(11_400)), 7, "its slot is used again");
    }

    #[test]
    fn what_was_counted_leaves_with_its_window_however_often_it_is_asked() {
        let samples = Samples::new(Windows::default());
        samples.add(5, at(500));
        assert_eq!(samples.sum(at(1_000)), 5);
        samples.add(7, at(1_500));
        assert_eq!(samples.sum(at(1_900)), 12);
        assert_eq!(samples.sum(at(10_900)), 12);
        assert_eq!(samples.sum(at(11_000)), 7);
        assert_eq!(samples.sum(at(11_999)), 7);
        assert_eq!(samples.sum(at(12_000)), 0);
    }

    #[test]
    fn the_wait_is_kafkas() {
        // A usage of 20,000 in 10 s at a limit of 1,000 per second requires ten more seconds.
        assert_eq!(excess_ms(20_000, 1_000.0, at(1_000)), 10_000);
        assert_eq!(excess_ms(10_000, 1_000.0, at(1_000)), 0);
        assert_eq!(
            excess_ms(u64::MAX, 1e-9, at(1_000)),
            i32::MAX as u32,
            "no overflow"
        );
    }

    #[test]
    fn one_window_alone_is_a_window_long() {
        let windows = Windows {
            count: 1,
            length_ms: 2_000,
        };
        let (samples, at) = (Samples::new(windows), |ms| {
            windows.at(Duration::from_millis(ms))
        });
        samples.add(10, at(4_000));
        assert_eq!(samples.rate(at(4_000)), 5.0);
        assert_eq!(samples.rate(at(5_999)), 5.0);
        assert_eq!(samples.rate(at(6_000)), 0.0);
    }

    #[test]
    fn threads_lose_nothing() {
        let samples = Samples::new(Windows::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..10_000).for_each(|step| samples.add(1, at(step / 2_000 * 1_000)))
                });
            }
        });
        assert_eq!(samples.sum(at(4_999)), 40_000);
    }

    #[test]
    fn more_than_a_window_can_hold_stays_the_most() {
        let samples = Samples::new(Windows::default());
        samples.add(u64::MAX, at(0));
        samples.add(1, at(0));
        assert_eq!(samples.sum(at(0)), SUM_MAX);
    }
}
