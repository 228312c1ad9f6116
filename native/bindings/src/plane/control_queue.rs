//! Queue of requests and append completions for Python. A burst of items wakes Python only once.
//!
//! Limits count only items that are not drained. Each lane may fill the queue up to its own mark, so that admin
//! requests cannot block heartbeats, and heartbeats cannot block the controller. A lane above its mark is `Busy`: the
//! server then keeps the request, and stops reading from its socket until a drain makes room. A connection has at most
//! one request in the queue, because the server submits the next one after the answer. Within a lane, requests keep
//! their order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use pybroker_replica::IsrProposal;
use pybroker_server::config::LogLevel;
use pybroker_server::control_plane::{
    Busy, ControlPlane, ControlRequest, Lane, TransactionQuestion,
};

use super::wake::WakeFd;

/// Completion of an append that Python started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendCompletion {
    pub(crate) token: u64,
    pub(crate) error_code: i16,
    pub(crate) base_offset: i64,
    pub(crate) log_append_time: i64,
}

/// An item that a drain returns.
#[derive(Debug)]
pub(crate) enum Item {
    Request(ControlRequest),
    Completed(AppendCompletion),
    /// An ISR proposal of a leader on this broker.
    Proposed(IsrProposal),
    /// A question of a leader on this broker to a transaction coordinator.
    Asked(TransactionQuestion),
    /// Partitions whose log directory has failed.
    Offline(Vec<TopicIdPartition>),
    /// A connection that had a notice has closed.
    Gone(u64),
    /// All log directories have failed. The text is the last reason.
    Failed(String),
}

/// Memory that a request takes in addition to its body.
const REQUEST_OVERHEAD_BYTES: usize = 256;

/// One part in this many of a drain is reserved for the Admin lane, so that endless heartbeats do not starve it.
const ADMIN_SHARE: usize = 8;

/// Maximum bytes of bodies in a drain, because the event loop's thread decodes them without a break.
const DRAINED_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of native log lines that wait for Python. Further lines are counted and dropped.
const LOG_LINES_MAX: usize = 1_000;

/// Queue of the data plane, drained by Python.
#[derive(Debug)]
pub(crate) struct ControlQueue {
    inner: Mutex<Inner>,
    wake: WakeFd,
    bytes_max: usize,
    /// `queued.max.requests`.
    requests_max: usize,
    pub(crate) submitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) signals: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    lanes: [VecDeque<ControlRequest>; 3],
    completed: VecDeque<AppendCompletion>,
    proposed: VecDeque<IsrProposal>,
    /// Questions to transaction coordinators. Their number is bounded, because each connection has at most one.
    asked: VecDeque<TransactionQuestion>,
    offline: Vec<TopicIdPartition>,
    /// Ids of closed connections. Their number is bounded, because each connection has one notice.
    gone: VecDeque<u64>,
    failed: Option<String>,
    log: VecDeque<(LogLevel, String)>,
    log_dropped: u64,
    bytes: usize,
    waiting: Vec<(Lane, Waker)>,
    /// Whether the descriptor is readable. It changes only under the lock, so that neither the producer nor Python
    /// misses a change.
    signalled: bool,
    closed: bool,
}

impl Inner {
    fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
            && self.completed.is_empty()
            && self.proposed.is_empty()
            && self.asked.is_empty()
            && self.offline.is_empty()
            && self.gone.is_empty()
            && self.failed.is_none()
            && self.log.is_empty()
    }
}

const fn position(lane: Lane) -> usize {
    match lane {
        Lane::InterBroker => 0,
        Lane::Session => 1,
        Lane::Admin => 2,
    }
}

fn size_of(request: &ControlRequest) -> usize {
    request.body.len() + REQUEST_OVERHEAD_BYTES
}

impl ControlQueue {
    pub(crate) fn new(bytes_max: usize, requests_max: usize) -> io::Result<Self> {
        Ok(Self {
            inner: Mutex::default(),
            wake: WakeFd::new()?,
            bytes_max,
            requests_max,
            submitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            signals: AtomicU64::new(0),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.wake.fd()
    }

    /// Return whether a lane may take another request. A single request may exceed the mark, because otherwise a large
    /// one could never pass.
    fn has_room(&self, inner: &Inner, lane: Lane) -> bool {
        let eighths = match lane {
            Lane::InterBroker => 8,
            Lane::Session => 7,
            Lane::Admin => 6,
        };
        let mark = |max: usize| (max.saturating_mul(eighths) / 8).max(1);
        let queued: usize = inner.lanes.iter().map(VecDeque::len).sum();
        inner.bytes < mark(self.bytes_max) && queued < mark(self.requests_max)
    }

    fn signal(&self, inner: &mut Inner) {
        if !inner.signalled {
            inner.signalled = true;
            self.signals.fetch_add(1, Relaxed);
            self.wake.signal();
        }
    }

    pub(crate) fn complete(&self, completed: AppendCompletion) {
        let mut inner = self.inner.lock();
        if !inner.closed {
            inner.completed.push_back(completed);
            self.signal(&mut inner);
        }
    }

    /// Queue an ISR proposal. The number of proposals is bounded, because each partition has one in flight.
    pub(crate) fn propose(&self, proposal: IsrProposal) {
        let mut inner = self.inner.lock();
        if !inner.closed {
            inner.proposed.push_back(proposal);
            self.signal(&mut inner);
        }
    }

    /// Report the partitions of a failed log directory. The number of reports is bounded, because a log directory fails
    /// once.
    pub(crate) fn offline(&self, partitions: Vec<TopicIdPartition>) {
        let mut inner = self.inner.lock();
        if !inner.closed {
            inner.offline.extend(partitions);
            self.signal(&mut inner);
        }
    }

    /// Report a closed connection; see [`GoneNotice`].
    fn gone(&self, connection_id: u64) {
        let mut inner = self.inner.lock();
        if !inner.closed {
            inner.gone.push_back(connection_id);
            self.signal(&mut inner);
        }
    }

    /// Report that all log directories have failed.
    pub(crate) fn fail(&self, reason: &str) {
        let mut inner = self.inner.lock();
        if !inner.closed {
            inner.failed = Some(reason.to_owned());
            self.signal(&mut inner);
        }
    }

    pub(crate) fn log(&self, level: LogLevel, text: String) {
        let mut inner = self.inner.lock();
        if inner.log.len() >= LOG_LINES_MAX {
            inner.log_dropped += 1;
        } else {
            inner.log.push_back((level, text));
            self.signal(&mut inner);
        }
    }

    /// Take the log lines, and the number of lines that were dropped.
    pub(crate) fn take_log(&self) -> (VecDeque<(LogLevel, String)>, u64) {
        let mut inner = self.inner.lock();
        (
            std::mem::take(&mut inner.log),
            std::mem::take(&mut inner.log_dropped),
        )
    }

    /// Take at most `items_max` items, in this order: failures, inter-broker requests, completions, proposals,
    /// questions, session requests, admin requests.
    pub(crate) fn drain(&self, items_max: usize) -> Vec<Item> {
        let mut inner = self.inner.lock();
        let mut items = Vec::with_capacity(items_max.min(64));
        items.extend(inner.failed.take().map(Item::Failed));
        if !inner.offline.is_empty() {
            items.push(Item::Offline(std::mem::take(&mut inner.offline)));
        }
        let admin = inner.lanes[position(Lane::Admin)]
            .len()
            .min(items_max / ADMIN_SHARE);
        let mut bytes_left = DRAINED_BYTES_MAX;
        let room = (items_max - admin, &mut bytes_left);
        self.take_requests(&mut inner, Lane::InterBroker, room, &mut items);
        while items.len() < items_max - admin
            && let Some(completed) = inner.completed.pop_front()
        {
            items.push(Item::Completed(completed));
        }
        while items.len() < items_max - admin
            && let Some(proposal) = inner.proposed.pop_front()
        {
            items.push(Item::Proposed(proposal));
        }
        while items.len() < items_max - admin
            && let Some(connection_id) = inner.gone.pop_front()
        {
            items.push(Item::Gone(connection_id));
        }
        while items.len() < items_max - admin
            && let Some(question) = inner.asked.pop_front()
        {
            items.push(Item::Asked(question));
        }
        let room = (items_max - admin, &mut bytes_left);
        self.take_requests(&mut inner, Lane::Session, room, &mut items);
        // Take some admin requests, regardless of the bytes that other requests have used.
        bytes_left = bytes_left.max(DRAINED_BYTES_MAX / ADMIN_SHARE);
        let room = (items_max, &mut bytes_left);
        self.take_requests(&mut inner, Lane::Admin, room, &mut items);
        if inner.is_empty() && inner.signalled {
            inner.signalled = false;
            self.wake.consume();
        }
        let mut woken = Vec::new();
        if !inner.waiting.is_empty() {
            let waiting = std::mem::take(&mut inner.waiting);
            for (lane, waker) in waiting {
                if self.has_room(&inner, lane) {
                    woken.push(waker);
                } else {
                    inner.waiting.push((lane, waker));
                }
            }
        }
        drop(inner);
        woken.into_iter().for_each(Waker::wake);
        items
    }

    fn take_requests(
        &self,
        inner: &mut Inner,
        lane: Lane,
        (items_max, bytes_left): (usize, &mut usize),
        items: &mut Vec<Item>,
    ) {
        while items.len() < items_max
            && *bytes_left > 0
            && let Some(request) = inner.lanes[position(lane)].pop_front()
        {
            inner.bytes -= size_of(&request);
            *bytes_left = bytes_left.saturating_sub(request.body.len());
            if !request.reply.is_cancelled() {
                items.push(Item::Request(request));
            }
        }
    }

    /// Close the queue. It drops the waiting items, which closes their connections.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let lanes = std::mem::take(&mut inner.lanes);
        inner.completed.clear();
        inner.proposed.clear();
        inner.asked.clear();
        inner.gone.clear();
        inner.bytes = 0;
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        drop(lanes);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Return (requests, bytes) in the queue, for metrics.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.lanes.iter().map(VecDeque::len).sum(), inner.bytes)
    }
}

/// Notice that is attached to a connection. When the connection closes, it drops the notice, and the notice reports
/// this to the queue.
#[derive(Debug)]
pub(crate) struct GoneNotice {
    queue: Weak<ControlQueue>,
    connection_id: u64,
}

impl GoneNotice {
    pub(crate) fn new(queue: &Arc<ControlQueue>, connection_id: u64) -> Self {
        Self {
            queue: Arc::downgrade(queue),
            connection_id,
        }
    }
}

impl Drop for GoneNotice {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.gone(self.connection_id);
        }
    }
}

impl ControlPlane for ControlQueue {
    fn submit(&self, request: ControlRequest) -> Result<(), Busy> {
        let mut inner = self.inner.lock();
        if inner.closed {
            drop(inner);
            request.reply.close();
            return Ok(());
        }
        if !self.has_room(&inner, request.lane) {
            self.refused.fetch_add(1, Relaxed);
            return Err(Busy(Box::new(request)));
        }
        self.submitted.fetch_add(1, Relaxed);
        inner.bytes += size_of(&request);
        inner.lanes[position(request.lane)].push_back(request);
        self.signal(&mut inner);
        Ok(())
    }

    fn ask(&self, question: TransactionQuestion) {
        let mut inner = self.inner.lock();
        if !inner.closed {
            inner.asked.push_back(question);
            self.signal(&mut inner);
        }
    }

    fn poll_ready(&self, lane: Lane, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if inner.closed || self.has_room(&inner, lane) {
            return Poll::Ready(());
        }
        if !inner
            .waiting
            .iter()
            .any(|(of, waker)| *of == lane && waker.will_wake(context.waker()))
        {
            inner.waiting.push((lane, context.waker().clone()));
        }
        Poll::Pending
    }
}
