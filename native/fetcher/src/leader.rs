//! The thread that fetches from one leader: it requests changed partitions, appends and flushes the records, then
//! requests those partitions again.
//!
//! Each loop of the thread waits: for the leader's response (`replica.fetch.wait.max.ms`), a flush, the end of a pause,
//! or a message in the mailbox.

mod answers;
mod asking;
mod attaches;
mod bounds;
mod link;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use pybroker_client::{ConnectionSettings, Error};
use pybroker_model::{IdMap, TopicIdPartition};
use pybroker_protocol::hot::fetch_request::FetchRequest;
use pybroker_replica::{Clock, Replicas};

use crate::figures::Counters;
use crate::following::FollowerState;
use crate::mailbox::{Change, Mailbox};
use crate::names::Names;
use crate::session::Session;
use crate::{FetcherSettings, Level, Report};
use attaches::Attaches;
use link::Link;

/// How long the partitions of a response wait for each other's flush. The next request leaves out partitions that are
/// not flushed by then. While there are such partitions, the leader may not hold a request for longer than this.
const FLUSH_PATIENCE: Duration = Duration::from_millis(20);
/// Interval at which the thread checks all partitions, even without responses for them.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(1);

/// State shared by all fetchers of a broker.
pub(crate) struct FetcherContext {
    pub(crate) broker_id: i32,
    /// Broker epoch of this broker (KIP-903).
    pub(crate) broker_epoch: AtomicI64,
    /// Whether this broker uses topic ids (`inter.broker.protocol.version`).
    pub(crate) topic_ids: AtomicBool,
    /// A weak reference, so that a connecting thread does not keep logs open while the broker stops.
    pub(crate) replicas: Weak<Replicas>,
    pub(crate) settings: FetcherSettings,
    pub(crate) connection: ConnectionSettings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) report: Report,
}

impl FetcherContext {
    fn info(&self, text: &str) {
        (self.report)(Level::Info, text);
    }

    fn warn(&self, text: &str) {
        (self.report)(Level::Warning, text);
    }
}

/// Why one round of fetching ends early.
enum Stop {
    /// The connection is lost.
    Lost(Error),
    /// The mailbox has messages to read.
    CalledBack,
    /// The broker has closed its logs.
    NoReplicas,
}

impl From<Error> for Stop {
    fn from(problem: Error) -> Self {
        Stop::Lost(problem)
    }
}

/// State of a fetcher thread.
pub(crate) struct Fetcher {
    leader: i32,
    shared: Arc<FetcherContext>,
    mailbox: Arc<Mailbox>,
    waker: Waker,
    counters: Arc<Counters>,
    followed: IdMap<TopicIdPartition, FollowerState>,
    /// Partitions to include in the next request, if they are still ready then.
    ready: Vec<TopicIdPartition>,
    /// Partitions that wait for their flush.
    flushing: Vec<TopicIdPartition>,
    /// Paused partitions.
    paused: Vec<TopicIdPartition>,
    /// Partitions whose next offset the leader does not have.
    out_of_range: Vec<TopicIdPartition>,
    attaches: Attaches,
    session: Session,
    /// Topic names or ids, as the connection uses them.
    names: Names,
    link: Link,
    request: FetchRequest,
    body: Vec<u8>,
    /// Buffer of the response; reused.
    frame: Vec<u8>,
    small_answers: u32,
    looked_at_all: Option<Instant>,
}

impl Fetcher {
    pub(crate) fn new(
        leader: i32,
        shared: Arc<FetcherContext>,
        mailbox: Arc<Mailbox>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            leader,
            waker: Waker::from(Arc::clone(&mailbox)),
            link: Link::new(leader, Arc::clone(&counters)),
            shared,
            mailbox,
            counters,
            followed: IdMap::default(),
            ready: Vec::new(),
            flushing: Vec::new(),
            paused: Vec::new(),
            out_of_range: Vec::new(),
            attaches: Attaches::default(),
            session: Session::default(),
            names: Names::new(true),
            request: FetchRequest::default(),
            body: Vec::new(),
            frame: Vec::new(),
            small_answers: 0,
            looked_at_all: None,
        }
    }

    /// Run until a stop is in the mailbox.
    pub(crate) fn run(mut self) {
        loop {
            let mail = self.mailbox.take();
            if mail.stop {
                return;
            }
            if let Some(address) = mail.address {
                self.link.move_to(address);
                self.begin_anew();
            }
            self.change(&mail.changes);
            let now = self.shared.clock.now();
            self.resume(now);
            if self.is_idle() {
                self.mailbox.wait(self.next_look(now));
                continue;
            }
            if let Some(until) = self.link.rests_until(now) {
                self.mailbox.rest(until);
                continue;
            }
            match self.turn() {
                Ok(()) => self.count(),
                Err(Stop::CalledBack) => {}
                Err(Stop::NoReplicas) => return,
                Err(Stop::Lost(problem)) => {
                    let now = self.shared.clock.now();
                    self.link.lost(&self.shared, &problem, now);
                    self.begin_anew();
                }
            }
        }
    }

    fn turn(&mut self) -> Result<(), Stop> {
        if self.link.open(&self.shared)? {
            self.names = Names::new(self.link.get()?.by_id);
            self.begin_anew();
        }
        self.ask_bounds()?;
        self.fetch()
    }

    fn change(&mut self, changes: &[Change]) {
        let mut returned = false;
        for change in changes {
            match *change {
                Change::Follow(tip, epoch) => {
                    let following = match self.followed.get(&tip) {
                        Some(before) => before.in_epoch(epoch),
                        None => {
                            returned |= self.session.lists(tip);
                            FollowerState::new(epoch)
                        }
                    };
                    self.followed.insert(tip, following);
                    self.ready.push(tip);
                }
                Change::Leave(tip) => {
                    self.session.doubt(tip);
                    self.followed.remove(&tip);
                }
            }
        }
        if returned {
            // A partition returned to the session. Start a new session, because in the old one the leader would not
            // repeat what it sent before the partition left.
            self.begin_anew();
        }
        self.counters
            .partitions
            .store(self.followed.len() as u64, Relaxed);
    }

    /// Start a new session, whose first request lists all partitions.
    fn begin_anew(&mut self) {
        self.session.forget();
        for (tip, following) in &mut self.followed {
            if following.ask_again() {
                self.ready.push(*tip);
            }
        }
        self.out_of_range.clear();
    }

    /// Make the partitions ready again whose pause or flush has ended.
    fn resume(&mut self, now: Instant) {
        let (followed, ready) = (&mut self.followed, &mut self.ready);
        self.paused.retain(|tip| {
            let Some(following) = followed.get_mut(tip) else {
                return false;
            };
            match following.paused() {
                Some(until) if until > now => true,
                Some(_) => {
                    following.resume();
                    ready.push(*tip);
                    false
                }
                None => false,
            }
        });
        self.look_at_flushes();
        self.look_at_attaches();
    }

    /// Make flushed partitions ready again, and take over the leader's bounds for them.
    fn look_at_flushes(&mut self) {
        let Some(replicas) = self.shared.replicas.upgrade() else {
            return;
        };
        let mut waiting = std::mem::take(&mut self.flushing);
        waiting.retain(|tip| {
            let Some(following) = self.followed.get_mut(tip) else {
                return false;
            };
            let Some(end) = following.flushing() else {
                return false;
            };
            // Skip a partition that is no longer hosted; the next request handles that.
            if let Some(partition) = replicas.partition(*tip)
                && partition.leader_epoch() == following.leader_epoch()
            {
                if !partition.may_claim(end, &self.waker) {
                    return true;
                }
                let (high_watermark, log_start) = following.bounds();
                // This fails if the role has changed, which the next request also detects.
                let _ =
                    partition.follow_bounds(following.leader_epoch(), high_watermark, log_start);
            }
            following.resume();
            self.ready.push(*tip);
            false
        });
        self.flushing = waiting;
    }

    /// Return whether there is no partition to request, and no request that the leader must answer.
    fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.out_of_range.is_empty() && self.session.is_empty()
    }

    /// Return the time at which to check again even without messages, or `None` if only a message requires a check.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let paused = self.paused.iter();
        let pauses = paused.filter_map(|tip| self.followed.get(tip)?.paused());
        let soon = !self.flushing.is_empty() || self.attaches.are_under_way();
        let flushes = soon.then(|| now + FLUSH_PATIENCE);
        pauses.chain(flushes).min()
    }

    /// Leave a partition out of the requests until [`Fetcher::resume`].
    fn hold_back(&mut self, tip: TopicIdPartition) {
        self.session.doubt(tip);
        let following = self.followed.get(&tip);
        if following.is_some_and(|following| following.paused().is_some()) {
            self.paused.push(tip);
        }
    }

    fn count(&mut self) {
        let held_back = self.paused.len() + self.flushing.len();
        self.counters.held_back.store(held_back as u64, Relaxed);
        let now = self.shared.clock.now();
        let due = self
            .looked_at_all
            .is_none_or(|then| now.saturating_duration_since(then) >= LOOK_AT_ALL_EVERY);
        if due {
            self.looked_at_all = Some(now);
            self.look_at_all();
            self.link.close_if_raised(&self.shared);
        }
    }

    /// Update the largest lag. Also apply the leader's bounds to partitions whose log was reopened, because the leader
    /// does not repeat them.
    fn look_at_all(&self) {
        let lag = self.followed.values().map(FollowerState::lag).max();
        self.counters.lag_max.store(lag.unwrap_or(0), Relaxed);
        let Some(replicas) = self.shared.replicas.upgrade() else {
            return;
        };
        for (tip, following) in &self.followed {
            let (high_watermark, log_start) = following.bounds();
            if let Some(partition) = replicas.partition(*tip)
                && partition.high_watermark() < high_watermark.min(partition.log_end_offset())
            {
                // This fails if the role has changed; then there is nothing to update.
                let epoch = following.leader_epoch();
                let _ = partition.follow_bounds(epoch, high_watermark, log_start);
            }
        }
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.counters.connected.store(false, Relaxed);
        self.mailbox.finish();
    }
}
