//! Incremental fetch sessions (KIP-227): the broker remembers the partitions of a consumer, whose requests then name
//! only changes.
//!
//! Sessions belong to a data thread, like the connections that use them, so they need no lock. A client that reconnects
//! to another thread gets an unknown session error and starts a new session, as after an eviction.
//!
//! A session uses either names (v7–12) or topic ids (v13+); a request of the other kind is
//! FETCH_SESSION_TOPIC_ID_ERROR.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pybroker_model::{BuildIdHasher, TopicId, Uuid};
use pybroker_protocol::ErrorCode;

/// A session unused for this long may be evicted for a new one (Kafka's `min.incremental.fetch.session.eviction.ms`).
const EVICTION_IDLE: Duration = Duration::from_secs(120);
/// Session epoch of a request for a new session.
pub(crate) const EPOCH_INITIAL: i32 = 0;
/// Session epoch of a request that has no session or closes it.
pub(crate) const EPOCH_FINAL: i32 = -1;

/// How a fetch identifies a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TopicKey {
    /// Up to v12.
    Name(Arc<str>),
    /// From v13. A request may contain the zero id, which belongs to no topic.
    Id(Uuid),
}

impl TopicKey {
    /// Return the name, or "" for an id.
    pub(crate) fn name(&self) -> &str {
        match self {
            TopicKey::Name(name) => name,
            TopicKey::Id(_) => "",
        }
    }

    /// Return the id, or zero for a name.
    pub(crate) fn id(&self) -> Uuid {
        match self {
            TopicKey::Name(_) => Uuid::ZERO,
            TopicKey::Id(id) => *id,
        }
    }
}

/// A partition to fetch.
#[derive(Debug, Clone)]
pub(crate) struct FetchTarget {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
    pub(crate) fetch_offset: i64,
    pub(crate) current_leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
    pub(crate) max_bytes: i32,
    /// Incarnation that a fetch by name without epochs read last; another id means that the topic was re-created.
    pub(crate) resolved: Option<TopicId>,
}

/// A partition of a session, with the state last sent to the client.
#[derive(Debug)]
struct SessionPartition {
    target: FetchTarget,
    high_watermark: i64,
    log_start_offset: i64,
}

/// A fetch session.
#[derive(Debug)]
pub(crate) struct FetchSession {
    by_id: bool,
    /// Epoch expected in the next request.
    epoch: i32,
    partitions: Vec<Option<SessionPartition>>,
    free: Vec<u32>,
    places: HashMap<(TopicKey, i32), u32, BuildIdHasher>,
    /// Reading order of the partitions. Partitions that returned records move to the back, so that each partition gets
    /// its turn.
    order: VecDeque<u32>,
    share: Share,
    created: Instant,
    used: Instant,
}

impl FetchSession {
    fn new(by_id: bool, share: Share, now: Instant) -> Self {
        FetchSession {
            by_id,
            epoch: 1,
            partitions: Vec::new(),
            free: Vec::new(),
            places: HashMap::default(),
            order: VecDeque::new(),
            share,
            created: now,
            used: now,
        }
    }

    /// Return the number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Add a partition, or update its fetch parameters.
    pub(crate) fn update(&mut self, target: FetchTarget) {
        let key = (target.topic.clone(), target.partition);
        if let Some(place) = self.places.get(&key) {
            if let Some(partition) = &mut self.partitions[*place as usize] {
                let resolved = partition.target.resolved;
                partition.target = FetchTarget { resolved, ..target };
            }
            return;
        }
        let partition = Some(SessionPartition {
            target,
            high_watermark: -1,
            log_start_offset: -1,
        });
        let place = match self.free.pop() {
            Some(place) => {
                self.partitions[place as usize] = partition;
                place
            }
            None => {
                self.partitions.push(partition);
                self.partitions.len() as u32 - 1
            }
        };
        self.places.insert(key, place);
        self.order.push_back(place);
    }

    /// Remove the partitions that a request forgets. It removes all of them in one scan of the order.
    pub(crate) fn forget(&mut self, partitions: impl IntoIterator<Item = (TopicKey, i32)>) {
        let free_before = self.free.len();
        for key in partitions {
            if let Some(place) = self.places.remove(&key) {
                self.partitions[place as usize] = None;
                self.free.push(place);
            }
        }
        if self.free.len() > free_before {
            let partitions = &self.partitions;
            self.order
                .retain(|place| partitions[*place as usize].is_some());
        }
    }

    /// Return the partitions in reading order, each with its index.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (u32, &FetchTarget)> {
        self.order
            .iter()
            .filter_map(|place| Some((*place, &self.partitions[*place as usize].as_ref()?.target)))
    }

    /// Return the partition at an index from [`FetchSession::targets`] of the same fetch.
    ///
    /// # Panics
    ///
    /// If the partition was removed since; only the session's own next fetch can remove it.
    pub(crate) fn target(&self, place: u32) -> &FetchTarget {
        let partition = self.partitions[place as usize].as_ref();
        &partition
            .expect("a session is changed by one fetch at a time")
            .target
    }

    /// Record which incarnation of the topic was read.
    pub(crate) fn set_resolved(&mut self, place: u32, id: TopicId) {
        if let Some(Some(partition)) = self.partitions.get_mut(place as usize) {
            partition.target.resolved = Some(id);
        }
    }

    /// Return whether the response must include a partition without records because its offsets changed, and store the
    /// new offsets.
    pub(crate) fn changed(
        &mut self,
        place: u32,
        error_code: i16,
        high_watermark: i64,
        log_start_offset: i64,
    ) -> bool {
        let Some(Some(partition)) = self.partitions.get_mut(place as usize) else {
            return false;
        };
        if error_code != 0 {
            // After an error, the next success is a change.
            partition.high_watermark = -1;
            return true;
        }
        let changed = partition.high_watermark != high_watermark
            || partition.log_start_offset != log_start_offset;
        partition.high_watermark = high_watermark;
        partition.log_start_offset = log_start_offset;
        changed
    }

    /// Return the high watermark sent last, or -1.
    pub(crate) fn told_watermark(&self, place: u32) -> i64 {
        match self.partitions.get(place as usize) {
            Some(Some(partition)) => partition.high_watermark,
            _ => -1,
        }
    }

    /// Move the partitions that returned records behind the others.
    pub(crate) fn rotate(&mut self, gave_records: &[u32]) {
        if gave_records.is_empty() || gave_records.len() == self.order.len() {
            return;
        }
        let gave: hashbrown::HashSet<u32, BuildIdHasher> = gave_records.iter().copied().collect();
        self.order.retain(|place| !gave.contains(place));
        self.order.extend(gave_records);
    }
}

/// A session's share of the number of partitions in all sessions of its thread. Released on drop.
#[derive(Debug)]
struct Share {
    partitions: usize,
    of: Arc<AtomicUsize>,
}

impl Share {
    /// Reserve a share, unless the total would exceed `max`.
    fn take(of: &Arc<AtomicUsize>, partitions: usize, max: usize) -> Option<Self> {
        let mut share = Share {
            partitions: 0,
            of: Arc::clone(of),
        };
        share.becomes(partitions, max).then_some(share)
    }

    /// Resize the share. Return false if the total would exceed `max`.
    fn becomes(&mut self, partitions: usize, max: usize) -> bool {
        let others = self.of.load(Ordering::Relaxed) - self.partitions;
        let grows = partitions > self.partitions;
        if grows && others.saturating_add(partitions) > max {
            return false;
        }
        self.of.store(others + partitions, Ordering::Relaxed);
        self.partitions = partitions;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.fetch_sub(self.partitions, Ordering::Relaxed);
    }
}

/// The sessions of one data thread.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    by_session_id: HashMap<i32, FetchSession>,
    max: usize,
    partitions_max: usize,
    /// Number of partitions in all sessions, including sessions that are taken out.
    partitions: Arc<AtomicUsize>,
}

/// A session taken out for the duration of one fetch: return it with [`FetchSessions::put_back`].
pub(crate) type CheckedOutSession = (i32, FetchSession);

impl FetchSessions {
    /// Create a cache of at most `max` sessions with at most `partitions_max` partitions together.
    pub(crate) fn new(max: usize, partitions_max: usize) -> Self {
        FetchSessions {
            by_session_id: HashMap::new(),
            max,
            partitions_max,
            partitions: Arc::default(),
        }
    }

    /// Change the limit; existing sessions stay.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Take the session for an incremental fetch, with its epoch advanced, or return the error for the whole response.
    pub(crate) fn take(
        &mut self,
        id: i32,
        epoch: i32,
        by_id: bool,
        now: Instant,
    ) -> Result<CheckedOutSession, ErrorCode> {
        let session = self
            .by_session_id
            .get_mut(&id)
            .ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.by_id != by_id {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        if session.epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        session.used = now;
        self.by_session_id
            .remove(&id)
            .map(|session| (id, session))
            .ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)
    }

    /// Return a session to the cache. A session ends if it becomes empty, or if it has outgrown the limit: its client
    /// then gets FETCH_SESSION_ID_NOT_FOUND and creates another. As in Kafka, a new session may be empty.
    pub(crate) fn put_back(&mut self, (id, mut session): CheckedOutSession) {
        let count = session.len();
        let new = session.epoch == 1;
        if (count > 0 || new) && session.share.becomes(count, self.partitions_max) {
            self.by_session_id.insert(id, session);
        }
    }

    /// Remove a session; unknown ids are ignored, because the session may have been evicted.
    pub(crate) fn remove(&mut self, id: i32) {
        self.by_session_id.remove(&id);
    }

    /// Create a session for these partitions without storing it; `None` if there is no room. The second value says
    /// whether a session was evicted.
    pub(crate) fn create(
        &mut self,
        targets: &[FetchTarget],
        by_id: bool,
        now: Instant,
    ) -> (Option<CheckedOutSession>, bool) {
        let Some(share) = Share::take(&self.partitions, targets.len(), self.partitions_max) else {
            return (None, false);
        };
        let evicted = self.by_session_id.len() >= self.max;
        if evicted && !self.evict_for(targets.len(), now) {
            return (None, false);
        }
        let mut session = FetchSession::new(by_id, share, now);
        for target in targets {
            session.update(target.clone());
        }
        let mut id = 0;
        while id == 0 || self.by_session_id.contains_key(&id) {
            id = (Uuid::random().as_u128() as u32 >> 1) as i32;
        }
        (Some((id, session)), evicted)
    }

    /// Evict in Kafka's order: a session idle for long, else a smaller session without recent use.
    fn evict_for(&mut self, partitions: usize, now: Instant) -> bool {
        let idle = |session: &FetchSession| now.saturating_duration_since(session.used);
        let age = |session: &FetchSession| now.saturating_duration_since(session.created);
        let oldest = self
            .by_session_id
            .iter()
            .max_by_key(|(_, session)| idle(session));
        let victim = match oldest {
            Some((id, session)) if idle(session) > EVICTION_IDLE => Some(*id),
            _ => self
                .by_session_id
                .iter()
                .filter(|(_, session)| age(session) > EVICTION_IDLE && session.len() < partitions)
                .min_by_key(|(_, session)| session.len())
                .map(|(id, _)| *id),
        };
        match victim {
            Some(id) => self.by_session_id.remove(&id).is_some(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests;
