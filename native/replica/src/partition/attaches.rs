//! Staged ingests that a leader has attached. Until an ingest is over, the leader announces it to the followers that
//! have the same staged files, and these followers attach their own files at the same offsets. Other followers copy the
//! records.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use pybroker_storage::AttachNotice;

/// Attached ingests of one partition.
#[derive(Debug, Default)]
pub(super) struct Attaches {
    /// Whether any ingest is attached. False for most partitions, so that reads by replicas skip the list.
    any: AtomicBool,
    known: RwLock<Vec<AttachNotice>>,
    /// Ended ingests whose files could not be removed.
    over: Mutex<Vec<Box<str>>>,
}

/// How the next attach affects a replica's read.
pub(super) enum NextAttach {
    /// The replica attaches its own staged files at this offset.
    Here(AttachNotice),
    /// The replica first reads the records up to this offset, then attaches its files.
    Below(i64),
}

impl Attaches {
    /// Mark the ingest as over, even if its files are still on disk.
    pub(super) fn end(&self, ingest: &str) {
        self.over.lock().push(ingest.into());
        self.announce(ingest, None);
    }

    /// Set the ingests that the log has attached.
    pub(super) fn set(&self, mut found: Vec<AttachNotice>) {
        let over = self.over.lock();
        found.retain(|one| !over.iter().any(|name| **name == *one.ingest));
        self.any.store(!found.is_empty(), Ordering::Release);
        *self.known.write() = found;
    }

    /// Announce an attach of the ingest, or withdraw it with `None`.
    pub(super) fn announce(&self, ingest: &str, told: Option<AttachNotice>) {
        let mut known = self.known.write();
        known.retain(|one| *one.ingest != *ingest);
        known.extend(told);
        self.any.store(!known.is_empty(), Ordering::Release);
    }

    /// Return the first attach at or after `offset` that the replica on `broker` must carry out with its own files.
    /// `end` is the log end.
    pub(super) fn next_attach(&self, broker: i32, offset: i64, end: i64) -> Option<NextAttach> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known.read();
        let meant = |one: &&AttachNotice| {
            one.base_offset >= offset && one.end_offset <= end && one.holders.contains(&broker)
        };
        let next = known
            .iter()
            .filter(meant)
            .min_by_key(|one| one.base_offset)?;
        Some(if next.base_offset == offset {
            NextAttach::Here(next.clone())
        } else {
            NextAttach::Below(next.base_offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(ingest: &str, base_offset: i64, end_offset: i64) -> AttachNotice {
        AttachNotice {
            ingest: ingest.into(),
            plan: 1,
            base_offset,
            end_offset,
            leader_epoch: 0,
            append_time: None,
            holders: [1, 2].into(),
        }
    }

    #[test]
    fn holders_are_led_to_each_attach_in_turn_and_others_past_it() {
        let attaches = Attaches::default();
        assert!(attaches.next_attach(2, 0, 99).is_none());
        attaches.announce("b", Some(notice("b", 20, 30)));
        attaches.announce("a", Some(notice("a", 10, 20)));
        let at = |offset, end| match attaches.next_attach(2, offset, end) {
            None => "on".to_owned(),
            Some(NextAttach::Here(told)) => told.ingest.to_string(),
            Some(NextAttach::Below(base)) => base.to_string(),
        };
        assert_eq!(at(0, 30), "10");
        assert_eq!(at(10, 30), "a");
        assert_eq!(at(11, 30), "20", "in its middle it goes on as it began");
        assert_eq!(at(20, 30), "b");
        assert_eq!(at(30, 30), "on");
        assert_eq!(at(20, 20), "on", "announced, and not in the log yet");
        assert!(attaches.next_attach(3, 10, 30).is_none(), "no holder");
        attaches.announce("a", None);
        assert_eq!(at(10, 30), "20");
        attaches.end("b");
        attaches.set(vec![notice("b", 20, 30)]);
        assert_eq!(at(20, 30), "on", "its files only could not be removed");
    }
}
