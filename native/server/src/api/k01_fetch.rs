//! Fetch, versions 4–18: by name to v12, by topic id from v13, with sessions (KIP-227) from v7.
//!
//! Reads what is there; if that is less than `min_bytes` and nothing is wrong, waits until one of the partitions can
//! give more, `max_wait_ms` have passed or the server stops: registrations with the partitions, no polling. Records
//! stay in their files: the reply is head bytes and file slices. Slices that are not in the page cache are read by
//! the pool first (R19).
//!
//! Errors of the whole response: 70, 71, 106 (sessions). An unknown topic is told per partition: by id
//! UNKNOWN_TOPIC_ID, by name UNKNOWN_TOPIC_OR_PARTITION, and does not end the wait for the others (as Kafka). A
//! fetch by name that cannot carry an epoch (to v8) and read another incarnation of the topic before gets one
//! OFFSET_OUT_OF_RANGE (R4). Requests of followers are not served on client listeners.

mod plan;
mod respond;

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::LeaderIdAndEpoch;
use pybroker_protocol::hot::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchPartitionHead,
};
use pybroker_replica::{FetchRead, Isolation, Partition, PartitionRead, Registration, TopicMap};

use self::plan::Source;
use super::partitions::{ResolvedTopic, points_elsewhere};
use super::{Answer, Call};
use crate::access::Access;
use crate::authorizer::Operation;
use crate::close::CloseReason;
use crate::cold_reads::ColdRead;
use crate::error_codes::{Naming, of_partition};
use crate::fetch_sessions::{FetchTarget, TopicKey};
use crate::metadata_view::MetadataView;
use crate::outgoing::{FileSlice, Outgoing};
use crate::shared::{ConnectionInfo, Shared, ThreadState};
use crate::slots::Slot;

/// Times a fetch looks again at once because something arrived between reading and registering.
const ATTEMPTS_MAX: usize = 4;

/// A Fetch that is being answered.
pub(crate) struct PendingFetch {
    version: i16,
    correlation_id: i32,
    flexible: bool,
    isolation: Isolation,
    min_bytes: usize,
    max_bytes: usize,
    source: Source,
    /// The session is told to the client (0 = none).
    session_id: i32,
    /// Only news is told (an incremental fetch).
    incremental: bool,
    listener: std::sync::Arc<str>,
    deadline: Instant,
    pub(crate) received: Instant,
    state: State,
}

enum State {
    /// Not read yet, or woken.
    Read,
    /// For more bytes; dropping the registrations ends the wait.
    Waiting(#[expect(dead_code, reason = "held for their drop")] Vec<Registration>),
    /// For the disk; what was read stays valid.
    Warming(ColdRead, Vec<Outcome>),
}

/// What was found for one partition.
struct Outcome {
    /// Where the source has it.
    place: u32,
    head: FetchPartitionHead,
    slice: Option<FileSlice>,
    /// Bound of the read, for the wait.
    end: i64,
    /// Ends the wait at once.
    urgent: bool,
    /// Unknown, or refused without having been looked at: cannot be waited for.
    absent: bool,
}

/// Starts a Fetch at the head of the slots. Its reply goes to `outgoing` because it has file slices.
pub(crate) fn run(
    call: &mut Call<'_, '_>,
    body: &[u8],
    outgoing: &mut Outgoing,
) -> Result<Answer, CloseReason> {
    let mut request = core::mem::take(&mut call.thread.fetch);
    let planned = match request.decode(body, call.version) {
        Err(error) => Err(call.bad_request(error)),
        Ok(()) => Ok(plan::plan(call, &request, body)),
    };
    let (max_wait_ms, min_bytes, max_bytes) =
        (request.max_wait_ms, request.min_bytes, request.max_bytes);
    let isolation = if request.isolation_level == 1 {
        Isolation::ReadCommitted
    } else {
        Isolation::ReadUncommitted
    };
    call.thread.fetch = request;
    let plan = match planned? {
        Ok(plan) => plan,
        Err(error) => {
            call.thread.metrics.error(error.0);
            let (correlation_id, flexible, version) =
                (call.correlation_id, call.flexible, call.version);
            let out = outgoing.tail(&mut call.thread.pool);
            respond::write_error(correlation_id, flexible, version, error, out);
            return Ok(Answer::Written);
        }
    };
    let limit = call.thread.settings.limits.fetch_bytes_max.min(max_bytes);
    let wait = Duration::from_millis(u64::try_from(max_wait_ms).unwrap_or(0));
    let mut pending = PendingFetch {
        version: call.version,
        correlation_id: call.correlation_id,
        flexible: call.flexible,
        isolation,
        min_bytes: usize::try_from(min_bytes).unwrap_or(0),
        max_bytes: usize::try_from(limit).unwrap_or(0),
        source: plan.source,
        session_id: plan.session_id,
        incremental: plan.incremental,
        listener: call.connection.peer.listener.clone(),
        deadline: call.received + wait,
        received: call.received,
        state: State::Read,
    };
    match pending.poll(
        call.shared,
        call.thread,
        call.connection,
        call.context,
        call.received,
        outgoing,
    ) {
        Poll::Ready(result) => result.map(|()| Answer::Written),
        Poll::Pending => Ok(Answer::Later(Slot::Fetch(Box::new(pending)))),
    }
}

impl PendingFetch {
    /// Ready when the reply is in `outgoing`.
    pub(crate) fn poll(
        &mut self,
        shared: &Shared,
        thread: &mut ThreadState,
        connection: &ConnectionInfo,
        context: &mut Context<'_>,
        now: Instant,
        outgoing: &mut Outgoing,
    ) -> Poll<Result<(), CloseReason>> {
        if let State::Warming(read, _) = &self.state
            && !read.is_done()
        {
            return Poll::Pending;
        }
        let (outcomes, warm) = match core::mem::replace(&mut self.state, State::Read) {
            State::Warming(_, outcomes) => (outcomes, true),
            State::Read | State::Waiting(_) => {
                match self.read_or_wait(shared, connection, context, now) {
                    Some(outcomes) => (outcomes, false),
                    None => return Poll::Pending,
                }
            }
        };
        self.finish(shared, thread, context, outcomes, warm, outgoing)
    }

    /// Reads all partitions. `None`: nothing to tell yet, and registered for what may come.
    fn read_or_wait(
        &mut self,
        shared: &Shared,
        connection: &ConnectionInfo,
        context: &Context<'_>,
        now: Instant,
    ) -> Option<Vec<Outcome>> {
        for attempt in 1.. {
            let map = shared.replicas.snapshot();
            let view = shared.metadata.load();
            // Asked at each look: an entry that was removed meanwhile ends the right to what comes (H5).
            let access = Access::new(shared, connection);
            let outcomes = self.read_all(&map, &view, &access);
            let bytes: usize = outcomes
                .iter()
                .filter_map(|outcome| Some(outcome.slice.as_ref()?.bytes))
                .sum();
            let over = bytes >= self.min_bytes
                || outcomes.iter().any(|outcome| outcome.urgent)
                || outcomes.iter().all(|outcome| outcome.absent)
                || now >= self.deadline
                || attempt >= ATTEMPTS_MAX
                || shared.draining.load(std::sync::atomic::Ordering::Relaxed);
            if over {
                return Some(outcomes);
            }
            if let Some(registrations) = self.register(&map, &view, &outcomes, context) {
                self.state = State::Waiting(registrations);
                return None;
            }
        }
        None
    }

    fn read_all(
        &mut self,
        map: &TopicMap<Partition>,
        view: &MetadataView,
        access: &Access<'_>,
    ) -> Vec<Outcome> {
        let mut left = self.max_bytes;
        let mut empty = true;
        let mut outcomes = Vec::with_capacity(self.source.len());
        let mut resolved: Option<(&TopicKey, ResolvedTopic<'_>, Option<ErrorCode>)> = None;
        let mut incarnations = Vec::new();
        for (place, target) in self.source.targets() {
            // Neighbours are mostly of one topic: look it up once.
            let (topic, refused) = match &resolved {
                Some((key, topic, refused)) if **key == target.topic => (topic, *refused),
                _ => {
                    let topic = resolve(map, view, &target.topic);
                    let given = match &target.topic {
                        TopicKey::Name(name) => Some(&**name),
                        TopicKey::Id(_) => None,
                    };
                    let refused = access.refuse(Operation::READ, given, &topic, view);
                    let (_, topic, refused) = resolved.insert((&target.topic, topic, refused));
                    (&*topic, *refused)
                }
            };
            if let Some(error) = refused {
                let head = FetchPartitionHead::refused(target.partition, error.0);
                outcomes.push(Outcome {
                    absent: true,
                    ..Outcome::refused(place, head)
                });
                continue;
            }
            if let Some(id) = topic.id
                && matches!(target.topic, TopicKey::Name(_))
                && target.resolved != Some(id)
            {
                incarnations.push((place, id));
                if target.resolved.is_some() && self.version <= 8 {
                    let head = FetchPartitionHead::refused(
                        target.partition,
                        ErrorCode::OFFSET_OUT_OF_RANGE.0,
                    );
                    outcomes.push(Outcome {
                        urgent: true,
                        absent: false,
                        ..Outcome::refused(place, head)
                    });
                    continue;
                }
            }
            let outcome = self.read_one(view, topic, place, target, left, empty);
            if let Some(slice) = &outcome.slice {
                left = left.saturating_sub(slice.bytes);
                empty = false;
            }
            outcomes.push(outcome);
        }
        for (place, id) in incarnations {
            self.source.set_resolved(place, id);
        }
        outcomes
    }

    fn read_one(
        &self,
        view: &MetadataView,
        topic: &ResolvedTopic<'_>,
        place: u32,
        target: &FetchTarget,
        left: usize,
        at_least_one: bool,
    ) -> Outcome {
        let partition = match topic.partition(view, target.partition) {
            Ok(partition) => partition,
            Err(error) => {
                let mut outcome = Outcome::refused(
                    place,
                    FetchPartitionHead::refused(target.partition, error.0),
                );
                outcome.absent = !points_elsewhere(error);
                outcome.urgent = !outcome.absent;
                outcome.head.current_leader = leader_hint(topic, view, target, error);
                return outcome;
            }
        };
        let read = partition.read(&FetchRead {
            offset: target.fetch_offset,
            max_bytes: left.min(usize::try_from(target.max_bytes).unwrap_or(0)),
            isolation: self.isolation,
            current_leader_epoch: target.current_leader_epoch,
            last_fetched_epoch: target.last_fetched_epoch,
            at_least_one,
        });
        match read {
            Ok(read) => self.outcome(place, target, read),
            Err(error) => {
                let naming = match target.topic {
                    TopicKey::Name(_) => Naming::Name,
                    TopicKey::Id(_) => Naming::Id,
                };
                let code = of_partition(&error, naming);
                let mut outcome =
                    Outcome::refused(place, FetchPartitionHead::refused(target.partition, code.0));
                outcome.urgent = true;
                outcome.head.current_leader = leader_hint(topic, view, target, code);
                outcome
            }
        }
    }

    fn outcome(&self, place: u32, target: &FetchTarget, read: PartitionRead) -> Outcome {
        let mut head = FetchPartitionHead::refused(target.partition, 0);
        head.high_watermark = read.high_watermark;
        head.last_stable_offset = read.last_stable_offset;
        head.log_start_offset = read.log_start_offset;
        let diverging = read.diverging.map(|end| EpochEndOffset {
            epoch: end.leader_epoch,
            end_offset: end.end_offset,
        });
        head.diverging_epoch = diverging;
        if self.isolation == Isolation::ReadCommitted {
            let aborted = read.aborted.unwrap_or_default().into_iter();
            let aborted = aborted.map(|(producer_id, first_offset)| AbortedTransaction {
                producer_id,
                first_offset,
            });
            head.aborted_transactions = Some(aborted.collect());
        }
        let end = match self.isolation {
            Isolation::ReadCommitted => read.last_stable_offset,
            _ => read.high_watermark,
        };
        let (position, bytes) = (read.records.position, read.records.len);
        let file = read.records.file.filter(|_| bytes > 0);
        let slice = file.map(|file| FileSlice {
            file,
            position,
            bytes,
        });
        Outcome {
            place,
            head,
            slice,
            end,
            urgent: diverging.is_some(),
            absent: false,
        }
    }

    /// Waits for any of the partitions. `None`: one of them has more already.
    fn register(
        &self,
        map: &TopicMap<Partition>,
        view: &MetadataView,
        outcomes: &[Outcome],
        context: &Context<'_>,
    ) -> Option<Vec<Registration>> {
        let mut registrations = Vec::with_capacity(outcomes.len());
        for ((_, target), outcome) in self.source.targets().zip(outcomes) {
            if outcome.absent {
                continue;
            }
            let partition = resolve(map, view, &target.topic)
                .partition(view, target.partition)
                .ok()?;
            registrations.push(partition.watch(self.isolation, outcome.end, context.waker())?);
        }
        Some(registrations)
    }

    /// When the wait ends at the latest; a wait for the disk has no end of its own.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Warming(..) => None,
            _ => Some(self.deadline),
        }
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.source.len() * size_of::<FetchTarget>()
    }

    /// The connection ends: the session stays for the client's next one on this thread.
    pub(crate) fn release(self, thread: &mut ThreadState) {
        self.source.release(thread);
    }
}

impl Outcome {
    fn refused(place: u32, head: FetchPartitionHead) -> Self {
        Outcome {
            place,
            head,
            slice: None,
            end: -1,
            urgent: false,
            absent: false,
        }
    }
}

fn resolve<'s>(
    map: &'s TopicMap<Partition>,
    view: &MetadataView,
    topic: &TopicKey,
) -> ResolvedTopic<'s> {
    match topic {
        TopicKey::Name(name) => ResolvedTopic::by_name(map, view, name),
        TopicKey::Id(id) => ResolvedTopic::by_id(map, view, *id),
    }
}

fn leader_hint(
    topic: &ResolvedTopic<'_>,
    view: &MetadataView,
    target: &FetchTarget,
    error: ErrorCode,
) -> Option<LeaderIdAndEpoch> {
    if points_elsewhere(error) {
        topic.current_leader(view, target.partition)
    } else {
        None
    }
}
