//! The next Fetch: its partitions, and how long the leader may hold it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use pybroker_model::TopicIdPartition;
use pybroker_protocol::ApiKey;
use pybroker_replica::{FetchFrom, Replicas};

use super::{FLUSH_PATIENCE, Fetcher, Stop};
use crate::mailbox::YOUNG;
use crate::requests;

/// After several responses in a row that are at most this large, the thread frees the memory of larger ones.
const FRAME_KEPT: usize = 64 * 1024;
const SMALL_ANSWERS: u32 = 64;

impl Fetcher {
    /// Run one Fetch and process its response.
    pub(super) fn fetch(&mut self) -> Result<(), Stop> {
        let replicas = self.shared.replicas.upgrade().ok_or(Stop::NoReplicas)?;
        let now = self.shared.clock.now();
        let Some(named) = self.next_named(&replicas, now) else {
            // In the leader's session, a topic name belongs to another topic.
            self.begin_anew();
            return Ok(());
        };
        // Release the replicas while the leader holds the request, so that a stop of the broker need not wait for this
        // thread.
        drop(replicas);
        let (session_id, session_epoch) = self.session.number();
        let followed = &self.followed;
        let forgotten = self.session.list(named.iter().map(|(tip, _)| *tip), |tip| {
            followed
                .get(tip)
                .is_some_and(|following| following.is_asked_for())
        });
        if self.session.is_empty() && forgotten.is_empty() {
            return Ok(());
        }
        let settings = &self.shared.settings;
        let names = &mut self.names;
        names.begin();
        let bytes_max = settings.partition_bytes_max;
        requests::name(&mut self.request, &named, names, bytes_max);
        requests::leave_out(&mut self.request, &forgotten, names);
        self.request.replica_id = self.shared.broker_id;
        self.request.replica_epoch = self.shared.broker_epoch.load(Relaxed);
        self.request.min_bytes = settings.min_bytes;
        self.request.max_bytes = settings.response_bytes_max;
        (self.request.session_id, self.request.session_epoch) = (session_id, session_epoch);
        let since = self.link.get()?.since;
        let patience = patience(settings.wait_max, since, now, self.next_look(now));
        self.request.max_wait_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        self.body.clear();
        let version = requests::fetch_version(self.names.by_id).number;
        self.request
            .encode(self.names.text(), version, &mut self.body);

        let open = self.link.get()?;
        let closer = Arc::clone(&open.closer);
        if !self.mailbox.waits(&closer, open.since) {
            // The request was not sent, so this thread's session state differs from the leader's.
            self.begin_anew();
            return Err(Stop::CalledBack);
        }
        let key = ApiKey::Fetch.code();
        let answered = open
            .connection
            .send(key, version, &[&self.body])
            .and_then(|sent| open.connection.receive_into(sent, &mut self.frame));
        if self.mailbox.is_back() {
            self.link.close();
            self.begin_anew();
            return Err(Stop::CalledBack);
        }
        let body = answered?;
        self.counters.requests.fetch_add(1, Relaxed);
        let frame = std::mem::take(&mut self.frame);
        let size = body.end;
        let done = self.answered(&frame[body]);
        self.frame = frame;
        self.give_back(size);
        done
    }

    /// Free memory that responses no longer need. `size` is the size of the last response.
    fn give_back(&mut self, size: usize) {
        self.small_answers = match size {
            0..=FRAME_KEPT => self.small_answers.saturating_add(1),
            _ => 0,
        };
        if self.small_answers >= SMALL_ANSWERS {
            self.frame.truncate(FRAME_KEPT);
            self.frame.shrink_to(FRAME_KEPT);
        }
    }

    /// Return the ready partitions, sorted, with their fetch positions. A partition with unflushed records waits for
    /// its flush first. Return `None` if a name in the leader's session belongs to another topic.
    fn next_named(
        &mut self,
        replicas: &Replicas,
        now: Instant,
    ) -> Option<Vec<(TopicIdPartition, FetchFrom)>> {
        let backoff = self.shared.settings.backoff;
        let mut ready = std::mem::take(&mut self.ready);
        ready.sort_unstable();
        ready.dedup();
        let mut named = Vec::with_capacity(ready.len());
        let mut names_hold = true;
        for tip in ready.drain(..) {
            let Some(following) = self.followed.get_mut(&tip) else {
                continue;
            };
            if !following.is_ready() {
                continue;
            }
            let partition = replicas.partition(tip);
            let from = partition
                .as_ref()
                .and_then(|partition| partition.fetch_from(self.leader));
            if let (Some(partition), Some(from)) = (&partition, from)
                && !partition.may_claim(from.offset, &self.waker)
            {
                partition.request_flush();
                following.wait_for_flush(from.offset);
                self.session.doubt(tip);
                self.flushing.push(tip);
                continue;
            }
            let throttled = partition
                .as_ref()
                .is_some_and(|partition| partition.is_throttled_as_follower());
            if throttled
                && !following.has_caught_up()
                && let Some(until) = replicas.throttles().follower.until(now)
            {
                // Pause at most as long as a leader would hold back a throttled partition, because the rate may change
                // meanwhile.
                following.pause_until(until.min(now + self.shared.settings.wait_max));
                self.hold_back(tip);
                continue;
            }
            if following.ask(from, now, backoff) {
                if let Some(partition) = &partition {
                    names_hold &= self.names.learn(tip.topic_id, partition.topic());
                }
                named.extend(from.map(|from| (tip, from)));
            } else {
                self.hold_back(tip);
            }
        }
        self.ready = ready;
        names_hold.then_some(named)
    }
}

/// Return how long the leader may wait for data: at most until a partition must be requested again, or until the
/// connection is old enough to be closed for new partitions.
fn patience(
    wait_max: Duration,
    opened: Instant,
    now: Instant,
    next_look: Option<Instant>,
) -> Duration {
    let grown_up = (opened + YOUNG).saturating_duration_since(now);
    let mut patience = wait_max;
    if !grown_up.is_zero() {
        patience = patience.min(grown_up.max(Duration::from_millis(1)));
    }
    if let Some(next) = next_look {
        patience = patience.min(next.saturating_duration_since(now).max(FLUSH_PATIENCE));
    }
    patience
}
