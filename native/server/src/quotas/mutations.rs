//! Token buckets of all entities with a `controller_mutation_rate`. Used by the control plane only.

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;

use super::bucket::Bucket;
use super::samples::Windows;
use super::table::EffectiveQuota;

/// Maximum number of buckets. Above it all buckets are dropped, which makes them full again. Only entities that
/// recently created or deleted topics have a bucket.
const BUCKETS_MAX: usize = 10_000;

type Key = (Option<Arc<str>>, Option<Arc<str>>);

/// Token buckets by entity.
#[derive(Debug, Default)]
pub(super) struct Mutations {
    buckets: HashMap<Key, (Bucket, f64)>,
}

impl Mutations {
    pub(super) fn take(
        &mut self,
        key: Key,
        quota: &EffectiveQuota,
        partitions: f64,
        strict: bool,
        windows: Windows,
        now: Instant,
    ) -> Result<u32, u32> {
        // Kafka's burst: the rate over all windows.
        let seconds = windows.count as f64 * windows.length_ms as f64 / 1e3;
        if self.buckets.len() >= BUCKETS_MAX && !self.buckets.contains_key(&key) {
            self.buckets
                .retain(|_, (bucket, rate)| !bucket.is_full(*rate, *rate * seconds, now));
            if self.buckets.len() >= BUCKETS_MAX {
                self.buckets.clear();
            }
        }
        let (rate, burst) = (quota.bound, quota.bound * seconds);
        let (bucket, known) = self
            .buckets
            .entry(key)
            .or_insert_with(|| (Bucket::new(burst, now), rate));
        *known = rate;
        bucket.take(partitions, (rate, burst), strict, now)
    }
}
