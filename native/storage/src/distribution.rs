//! A histogram with four steps for each power of two. A quantile is off by at most an eighth.

use std::sync::atomic::{AtomicU64, Ordering};

/// Binary logarithm of the number of steps for each power of two.
const STEP_BITS: u32 = 2;
/// Values from 2^36 on share the last step. In microseconds this is 19 hours.
const POWERS: usize = 36;
/// Number of steps.
const STEPS: usize = (POWERS - STEP_BITS as usize + 1) << STEP_BITS;

/// Histogram of values. One thread records at a time; others may read meanwhile.
#[derive(Debug)]
pub struct Distribution {
    steps: [AtomicU64; STEPS],
    sum: AtomicU64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            steps: std::array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
        }
    }
}

/// Add to a counter that only one thread writes; this needs no locked instruction.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(count);
    counter.store(sum, Ordering::Relaxed);
}

impl Distribution {
    /// Record a value.
    #[inline]
    pub fn record(&self, value: u64) {
        add(&self.steps[step_of(value)], 1);
        add(&self.sum, value);
    }

    /// Add the recorded values to `counts`.
    pub fn add_to(&self, counts: &mut Counts) {
        for (total, step) in counts.steps.iter_mut().zip(&self.steps) {
            *total += step.load(Ordering::Relaxed);
        }
        counts.sum += self.sum.load(Ordering::Relaxed);
    }
}

#[inline]
fn step_of(value: u64) -> usize {
    let power = u64::BITS - 1 - (value | 1).leading_zeros();
    let step = if power < STEP_BITS {
        value as usize
    } else {
        let low = (value >> (power - STEP_BITS)) as usize & ((1 << STEP_BITS) - 1);
        (((power - STEP_BITS + 1) as usize) << STEP_BITS) + low
    };
    step.min(STEPS - 1)
}

/// Return the smallest value of a step.
fn lowest(step: usize) -> u64 {
    let (power, low) = (step >> STEP_BITS, step & ((1 << STEP_BITS) - 1));
    if power == 0 {
        low as u64
    } else {
        ((1 << STEP_BITS) + low as u64) << (power - 1)
    }
}

/// Content of distributions at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    steps: [u64; STEPS],
    /// Sum of all values.
    pub sum: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            steps: [0; STEPS],
            sum: 0,
        }
    }
}

impl Counts {
    /// Return the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.steps.iter().sum()
    }

    /// Add `count` values of 0.
    pub fn add_zeros(&mut self, count: u64) {
        self.steps[0] += count;
    }

    /// Return the number of values below `bound`, a power of two.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        self.steps[..step_of(bound)].iter().sum()
    }

    /// Return the values recorded since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut recent = self.clone();
        for (step, before) in recent.steps.iter_mut().zip(&earlier.steps) {
            *step = step.saturating_sub(*before);
        }
        recent.sum = self.sum.saturating_sub(earlier.sum);
        recent
    }

    /// Return the quantile for `share`, 0 to 1; NaN without values.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let count = self.count();
        let rank = share * count as f64;
        let mut before = 0;
        for (step, &here) in self.steps.iter().enumerate() {
            if here > 0 && (before + here) as f64 >= rank {
                let (from, to) = (lowest(step) as f64, lowest(step + 1) as f64);
                return from + (to - from) * (rank - before as f64) / here as f64;
            }
            before += here;
        }
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_step_that_begins_below_it() {
        for value in (0..5_000).chain((12..36).flat_map(|power| {
            let value = 1u64 << power;
            [value - 1, value, value + 1]
        })) {
            let step = step_of(value);
            assert!(lowest(step) <= value && value < lowest(step + 1), "{value}");
        }
        assert_eq!(step_of(u64::MAX), STEPS - 1);
    }

    #[test]
    fn quantiles_are_near_and_those_of_nothing_are_no_number() {
        let distribution = Distribution::default();
        (1..=1_000).for_each(|value| distribution.record(value));
        let mut counts = Counts::default();
        distribution.add_to(&mut counts);
        assert_eq!((counts.count(), counts.sum), (1_000, 500_500));
        for (share, value) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = counts.quantile(share);
            assert!((found - value).abs() < value / 8.0, "{share}: {found}");
        }
        assert_eq!(counts.below(512), 511);
        assert!(Counts::default().quantile(0.5).is_nan());
        assert!(counts.since(&counts).quantile(0.5).is_nan());
    }
}
