//! Registry of the usage counters by entity. Used when a connection looks up its quotas, not for each request.
//!
//! Kafka drops an entity after an hour. This registry drops counters that no connection uses once their windows are
//! empty, which has no effect on quotas. If there are too many counters, it drops all unused ones, because a client can
//! invent any number of client ids.

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;

use super::entity_usage::{EntityUsage, UsageKey};
use super::samples::Windows;

/// Maximum counters that no connection uses, about half a kilobyte each.
pub(super) const ENTITIES_MAX: usize = 20_000;
/// Number of counters below which none is dropped.
const ENTITIES_MIN: usize = 256;

/// Usage counters by entity.
#[derive(Debug, Default)]
pub(super) struct Registry {
    known: HashMap<UsageKey, Arc<EntityUsage>>,
    /// Number of counters at which the next scan for unused ones runs. It grows with the registry, so that scans cost
    /// little for each entry added.
    full: usize,
}

impl Registry {
    pub(super) fn get(
        &mut self,
        key: UsageKey,
        windows: Windows,
        began: Instant,
        now: Instant,
    ) -> Arc<EntityUsage> {
        if let Some(known) = self.known.get(&key) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.full.max(ENTITIES_MIN) {
            self.shrink(now);
        }
        let made = Arc::new(EntityUsage::new(key.clone(), windows, began));
        self.known.insert(key, Arc::clone(&made));
        made
    }

    fn shrink(&mut self, now: Instant) {
        let is_held = |usage: &Arc<EntityUsage>| Arc::strong_count(usage) > 1;
        self.known
            .retain(|_, usage| is_held(usage) || !usage.is_idle(now));
        if self.known.len() >= ENTITIES_MAX {
            self.known.retain(|_, usage| is_held(usage));
        }
        let held = self.known.len();
        self.full = (held * 2).min(ENTITIES_MAX.max(held + ENTITIES_MIN));
        self.known.shrink_to(self.full);
    }

    pub(super) fn all(&self) -> Vec<Arc<EntityUsage>> {
        self.known.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Kind;
    use super::*;
    use std::time::Duration;

    fn key(client_id: &str) -> UsageKey {
        UsageKey {
            kind: Kind::Produce,
            user: None,
            client_id: Some(client_id.into()),
        }
    }

    #[test]
    fn client_ids_by_the_thousand_are_bounded_and_those_in_use_stay() {
        let (mut registry, began) = (Registry::default(), Instant::now());
        let mut get = |name: &str, ms| {
            let now = began + Duration::from_millis(ms);
            registry.get(key(name), Windows::default(), began, now)
        };
        let held = get("held", 0);
        for step in 0..200_000 {
            // All counters have recent usage.
            get(&step.to_string(), 0).add(1, began);
        }
        assert!(Arc::ptr_eq(&held, &get("held", 0)));
        get("later", 60_000);
        assert!(registry.known.len() <= ENTITIES_MAX + 1);
    }

    #[test]
    fn a_client_that_comes_back_finds_its_figures() {
        let (mut registry, began) = (Registry::default(), Instant::now());
        let mut get = |name: &str| registry.get(key(name), Windows::default(), began, began);
        get("greedy").add(1_000, began);
        for step in 0..2_000 {
            get(&step.to_string());
        }
        assert!(!get("greedy").is_idle(began));
    }
}
