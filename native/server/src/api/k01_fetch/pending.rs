//! A Fetch that is being answered: read, wait for more records, wait for the disk, write.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use pybroker_protocol::ErrorCode;
use pybroker_replica::{Isolation, Partition, Registration, TopicMap};

use super::parameters::{FetchParameters, Source};
use super::read::{Outcome, read_all, resolve};
use super::respond::{WriteOutcome, sent_slices, write, write_throttled};
use crate::api::topic_access::Access;
use crate::blocking::cold_reads::{ColdRead, is_resident};
use crate::clients::close_reason::CloseReason;
use crate::clients::connection_info::ConnectionInfo;
use crate::fetch_sessions::{FetchTarget, TopicKey};
use crate::metadata_view::MetadataView;
use crate::metrics::Moments;
use crate::net::outgoing::Outgoing;
use crate::shared::{ServerState, ThreadState};

/// Maximum retries of a fetch when records arrive between reading and registering.
const ATTEMPTS_MAX: usize = 4;

/// Estimated response bytes per partition besides the records, for quotas.
const HEAD_BYTES: usize = 64;

/// A Fetch whose reply is not written yet.
pub(crate) struct PendingFetch {
    parameters: FetchParameters,
    source: Source,
    pub(crate) moments: Moments,
    state: State,
}

enum State {
    /// The fetch was not read yet, or was woken to read again.
    Read,
    /// The fetch waits for more records. Dropping the registrations ends the wait.
    Waiting(#[expect(dead_code, reason = "held for their drop")] Vec<Registration>),
    /// The fetch waits for the disk. The outcomes of the read stay valid.
    Warming(ColdRead, Vec<Outcome>),
}

impl PendingFetch {
    pub(super) fn new(parameters: FetchParameters, source: Source, moments: Moments) -> Self {
        PendingFetch {
            parameters,
            source,
            moments,
            state: State::Read,
        }
    }

    /// Ready when the reply is in `outgoing`.
    pub(crate) fn poll(
        &mut self,
        shared: &ServerState,
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
        if !warm && let Some(wait_ms) = self.over_quota(shared, connection, &outcomes) {
            write_throttled(&self.parameters, wait_ms, thread, outgoing);
            let source = core::mem::replace(&mut self.source, Source::Request(Vec::new()));
            source.give_up(self.parameters.incremental, thread);
            return Poll::Ready(Ok(()));
        }
        self.note_incarnations(connection, &outcomes);
        self.finish(shared, thread, context, outcomes, warm, outgoing)
    }

    /// Read all partitions. Return `None` if there is nothing to answer yet; the fetch is then registered for new
    /// records.
    fn read_or_wait(
        &mut self,
        shared: &ServerState,
        connection: &ConnectionInfo,
        context: &Context<'_>,
        now: Instant,
    ) -> Option<Vec<Outcome>> {
        for attempt in 1.. {
            let map = shared.replicas.snapshot();
            let view = shared.metadata.load();
            // Check access at each read: an ACL that was removed in the meantime ends access to new records.
            let access = Access::new(shared, connection);
            let outcomes = read_all(&self.parameters, &mut self.source, &map, &view, &access);
            let bytes: usize = outcomes
                .iter()
                .filter_map(|outcome| Some(outcome.slice.as_ref()?.bytes))
                .sum();
            let over = bytes >= self.parameters.min_bytes
                || outcomes.iter().any(|outcome| outcome.urgent)
                || self.has_watermark_to_tell(&outcomes)
                || outcomes.iter().all(|outcome| outcome.absent)
                || now >= self.parameters.deadline
                || attempt >= ATTEMPTS_MAX
                || shared.draining.load(Ordering::Relaxed);
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

    /// Return the throttle time in milliseconds if the records exceed the client's quota. Brokers have no quota.
    fn over_quota(
        &self,
        shared: &ServerState,
        connection: &ConnectionInfo,
        outcomes: &[Outcome],
    ) -> Option<i32> {
        if !shared.metadata.quotas().is_active() || self.parameters.follower.is_some() {
            return None;
        }
        let records = outcomes
            .iter()
            .filter_map(|outcome| Some(outcome.slice.as_ref()?.bytes + HEAD_BYTES));
        connection.quotas.fetched(records.sum(), Instant::now())
    }

    /// Return whether the follower lacks the newest high watermark, which its consumers need.
    fn has_watermark_to_tell(&self, outcomes: &[Outcome]) -> bool {
        let Source::Session(session) = &self.source else {
            return false;
        };
        self.parameters.tells_watermark
            && self.parameters.incremental
            && outcomes.iter().any(|outcome| {
                outcome.head.error_code == 0
                    && session.1.told_watermark(outcome.place) < outcome.head.high_watermark
            })
    }

    /// Register for new records of the partitions. Return `None` if one of them already has more records.
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
            let isolation = self.parameters.isolation;
            registrations.push(partition.watch(isolation, outcome.end, context.waker())?);
            if self.parameters.tells_watermark {
                let told = outcome.head.high_watermark;
                let watched = Isolation::ReadUncommitted;
                registrations.push(partition.watch(watched, told, context.waker())?);
            }
        }
        Some(registrations)
    }

    /// Write the reply, unless slices must be read from disk first. `warm` means that the pool has read them.
    fn finish(
        &mut self,
        shared: &ServerState,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        mut outcomes: Vec<Outcome>,
        warm: bool,
        outgoing: &mut Outgoing,
    ) -> Poll<Result<(), CloseReason>> {
        if !warm {
            self.note_in_session(&mut outcomes);
        }
        let (parameters, source) = (&self.parameters, &self.source);
        let mut write = |outcomes: &[Outcome], thread: &mut ThreadState, wait| {
            write(parameters, source, shared, thread, outcomes, wait, outgoing)
                .map_err(CloseReason::SendFailed)
        };
        let mut written = WriteOutcome::Cold;
        if warm || sent_slices(&outcomes).all(is_resident) {
            written = write(&outcomes, thread, warm)?;
        }
        if let WriteOutcome::Cold = written {
            thread.metrics.cold_reads.add(1);
            let slices = outcomes
                .iter()
                .filter_map(|outcome| outcome.slice.clone())
                .collect();
            if let Some(read) = shared.cold_reads.read(slices, context.waker()) {
                self.state = State::Warming(read, outcomes);
                return Poll::Pending;
            }
            // The pool's queue is full, so this thread waits for the disk itself.
            write(&outcomes, thread, true)?;
        }
        core::mem::replace(&mut self.source, Source::Request(Vec::new())).release(thread);
        Poll::Ready(Ok(()))
    }

    /// Record which incarnations the client reads, including those for which it gets OFFSET_OUT_OF_RANGE now.
    fn note_incarnations(&self, connection: &ConnectionInfo, outcomes: &[Outcome]) {
        let Source::Request(targets) = &self.source else {
            return;
        };
        for outcome in outcomes {
            let target = &targets[outcome.place as usize];
            let code = ErrorCode(outcome.head.error_code);
            if let (TopicKey::Name(name), Some(id)) = (&target.topic, target.resolved)
                && (code == ErrorCode::NONE || code == ErrorCode::OFFSET_OUT_OF_RANGE)
            {
                connection.has_read(name, target.partition, id);
            }
        }
    }

    /// Drop partitions without changes from an incremental response and reorder the session for its next fetch.
    fn note_in_session(&mut self, outcomes: &mut Vec<Outcome>) {
        let Source::Session(session) = &mut self.source else {
            return;
        };
        let gave_records: Vec<u32> = outcomes
            .iter()
            .filter(|outcome| outcome.slice.is_some())
            .map(|outcome| outcome.place)
            .collect();
        let incremental = self.parameters.incremental;
        outcomes.retain(|outcome| {
            let head = &outcome.head;
            let news = session.1.changed(
                outcome.place,
                head.error_code,
                head.high_watermark,
                head.log_start_offset,
            );
            let told = head.diverging_epoch.is_some()
                || head.attach.is_some()
                || head.preferred_read_replica >= 0;
            !incremental || news || told || outcome.slice.is_some()
        });
        session.1.rotate(&gave_records);
    }

    /// Return the version of the request.
    pub(crate) fn version(&self) -> i16 {
        self.parameters.version.number
    }

    /// Return the time at which the wait for records ends. A wait for the disk has no deadline here.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Warming(..) => None,
            _ => Some(self.parameters.deadline),
        }
    }

    /// Return the memory held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.source.len() * size_of::<FetchTarget>()
    }

    /// Release the fetch when the connection ends. Its session stays available for the client's next connection on this
    /// thread.
    pub(crate) fn release(self, thread: &mut ThreadState) {
        self.source.release(thread);
    }
}
