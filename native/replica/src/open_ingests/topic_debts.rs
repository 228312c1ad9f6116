//! Ingest rate of one topic: the value of `ingest.quota.topic.bytes.per.second` when the ingest began.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pybroker_model::TopicId;

use super::error::IngestError;
use super::quota::{CREDIT, Debt, millis};

/// Debts by topic; topics without a limit have no entry.
#[derive(Debug, Default)]
pub(super) struct TopicDebts(Mutex<HashMap<TopicId, Debt>>);

/// Number of topics above which paid debts are forgotten.
const REMEMBERED: usize = 1_000;

impl TopicDebts {
    /// Check whether an append may be admitted; does not count it yet.
    pub(super) fn check(&self, topic: TopicId, rate: u64, now: Instant) -> Result<(), IngestError> {
        if rate == u64::MAX {
            return Ok(());
        }
        let mut debts = self.0.lock();
        let left = debts
            .get_mut(&topic)
            .map_or(Duration::ZERO, |debt| debt.left(rate, now));
        if left <= CREDIT {
            return Ok(());
        }
        Err(IngestError::Throttled {
            reason: "ingest.quota.topic.bytes.per.second is used up; no record of this request was staged",
            wait_ms: millis(left - CREDIT).max(1),
        })
    }

    /// Add `bytes`; return how long the client must wait before the next append.
    pub(super) fn add(&self, topic: TopicId, rate: u64, bytes: u64, now: Instant) -> i32 {
        if rate == u64::MAX {
            return 0;
        }
        let mut debts = self.0.lock();
        if debts.len() > REMEMBERED {
            debts.retain(|_, debt| !debt.is_paid(now));
        }
        let debt = debts.entry(topic).or_default();
        debt.left(rate, now);
        debt.add(bytes);
        millis(debt.left(rate, now))
    }
}

#[cfg(test)]
mod tests {
    use pybroker_model::Uuid;

    use super::*;

    fn topic(number: u8) -> TopicId {
        TopicId::new(Uuid::from_bytes([number; 16])).expect("not a reserved one")
    }

    #[test]
    fn each_topic_has_its_own() {
        let (debts, begun) = (TopicDebts::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        assert_eq!(debts.add(topic(2), u64::MAX, 1 << 40, at(0)), 0);
        assert!(debts.0.lock().is_empty(), "without a bound");
        assert_eq!(debts.add(topic(2), 1_000, 3_000, at(0)), 3_000);
        assert!(debts.check(topic(3), 1_000, at(0)).is_ok());
        let Err(IngestError::Throttled { wait_ms, .. }) = debts.check(topic(2), 1_000, at(500))
        else {
            panic!("too early");
        };
        assert_eq!(wait_ms, 1_500);
        assert!(debts.check(topic(2), 1_000, at(2_000)).is_ok());
    }

    #[test]
    fn what_is_paid_is_forgotten() {
        let (debts, begun) = (TopicDebts::default(), Instant::now());
        let ids: Vec<TopicId> = (0..=REMEMBERED as u32)
            .map(|number| {
                let mut bytes = [7; 16];
                bytes[..4].copy_from_slice(&number.to_be_bytes());
                TopicId::new(Uuid::from_bytes(bytes)).expect("not a reserved one")
            })
            .collect();
        for id in &ids {
            debts.add(*id, 1_000, 10, begun);
        }
        let later = begun + Duration::from_secs(1);
        debts.add(topic(2), 1_000, 10, later);
        assert_eq!(debts.0.lock().len(), 1);
    }
}
