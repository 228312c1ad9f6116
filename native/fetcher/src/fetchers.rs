//! All fetchers of a broker: the partitions that it follows, and their leaders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pybroker_client::ConnectionSettings;
use pybroker_model::{IdMap, TopicIdPartition};
use pybroker_replica::{Clock, Replicas, StagedCopies};

use crate::figures::Counters;
use crate::leader::{Fetcher, FetcherContext};
use crate::mailbox::{Change, Mailbox};
use crate::{FetcherSettings, LeaderFigures, Report, StagedSender};

/// Longest wait of [`Fetchers::stop`] for its threads. A thread that is connecting may take longer, but keeps no log
/// open.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Response timeout of replicas for staged records. An append that waits for an unresponsive replica then fails and its
/// client retries, until the replica responds or leaves the ISR.
const STAGING_PATIENCE: Duration = Duration::from_secs(5);

/// Address of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// The broker's id.
    pub id: i32,
    /// Host and port of its inter-broker listener.
    pub address: String,
}

/// The leader that a partition follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The partition.
    pub tip: TopicIdPartition,
    /// Broker id of the partition's leader. This broker's own id or a negative id means that the partition follows no
    /// broker.
    pub leader: i32,
    /// Epoch of that leader. If it is negative and there is no leader to follow, stop following regardless of the
    /// current epoch.
    pub leader_epoch: i32,
}

/// All fetchers of a broker.
pub struct Fetchers {
    shared: Arc<FetcherContext>,
    staged: Arc<StagedSender>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    assigned: IdMap<TopicIdPartition, (i32, i32)>,
    /// Number of partitions for each thread.
    followed: IdMap<Place, usize>,
    addresses: IdMap<i32, String>,
    threads: IdMap<Place, Thread>,
    /// `num.replica.fetchers`.
    threads_per_leader: u32,
    /// Threads that were asked to stop. Only [`Fetchers::stop`] waits for their end.
    ending: Vec<Thread>,
    stopped: bool,
}

/// A fetcher thread: its leader, and its number among that leader's threads.
type Place = (i32, u32);

struct Thread {
    mailbox: Arc<Mailbox>,
    counters: Arc<Counters>,
    handle: JoinHandle<()>,
}

impl std::fmt::Debug for Fetchers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Fetchers")
            .field("broker_id", &self.shared.broker_id)
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl Fetchers {
    /// Return fetchers that follow no partition yet. `connection` has the settings for connections to brokers;
    /// `settings` override its request timeout.
    #[must_use]
    pub fn new(
        broker_id: i32,
        replicas: &Arc<Replicas>,
        settings: FetcherSettings,
        connection: ConnectionSettings,
        clock: Arc<dyn Clock>,
        report: Report,
    ) -> Self {
        let connection = ConnectionSettings {
            request_timeout: settings.socket_timeout.max(settings.wait_max),
            ..connection
        };
        let staged = Arc::new(StagedSender::new(ConnectionSettings {
            request_timeout: STAGING_PATIENCE,
            ..connection.clone()
        }));
        let way: Arc<dyn StagedCopies> = Arc::clone(&staged) as _;
        replicas.ingests().set_copies(way);
        let shared = FetcherContext {
            broker_id,
            broker_epoch: AtomicI64::new(-1),
            topic_ids: AtomicBool::new(settings.topic_ids),
            replicas: Arc::downgrade(replicas),
            settings,
            connection,
            clock,
            report,
        };
        let table = Table {
            threads_per_leader: settings.threads.max(1),
            ..Table::default()
        };
        Self {
            shared: Arc::new(shared),
            staged,
            table: Mutex::new(table),
        }
    }

    /// Set this broker's broker epoch for requests (KIP-903).
    pub fn set_broker_epoch(&self, broker_epoch: i64) {
        self.shared.broker_epoch.store(broker_epoch, Relaxed);
    }

    /// Update broker addresses, and the leaders of these partitions; other partitions are unchanged. Call it after the
    /// partitions have taken their roles. Does not block.
    ///
    /// Ignores an assignment whose epoch is below the partition's current one. An assignment with the same epoch
    /// changes nothing.
    ///
    /// # Errors
    /// If the operating system cannot start a thread; the partitions of that leader are then not followed.
    pub fn set(&self, brokers: &[Broker], assignments: &[Assignment]) -> std::io::Result<()> {
        let now = self.shared.clock.now();
        let mut table = self.table.lock();
        if table.stopped {
            return Ok(());
        }
        for broker in brokers {
            table.place(broker);
            self.staged.place(broker.id, &broker.address);
        }
        let mut changes: IdMap<Place, Vec<Change>> = IdMap::default();
        for assignment in assignments {
            table.assign(self.shared.broker_id, *assignment, &mut changes);
        }
        let mut failed = Ok(());
        for (place, changes) in changes {
            if let Err(error) = self.tell(&mut table, place, changes, now) {
                failed = Err(error);
            }
        }
        table.ending.retain(|thread| !thread.handle.is_finished());
        failed
    }

    /// Set whether requests use topic ids for leaders that know them. A connection that uses names switches within a
    /// second.
    pub fn set_topic_ids(&self, topic_ids: bool) {
        self.shared.topic_ids.store(topic_ids, Relaxed);
    }

    /// Set `num.replica.fetchers`: moves partitions to other threads of their leaders.
    ///
    /// # Errors
    /// As [`Fetchers::set`].
    pub fn set_threads(&self, threads: u32) -> std::io::Result<()> {
        let now = self.shared.clock.now();
        let mut table = self.table.lock();
        let (before, after) = (table.threads_per_leader, threads.max(1));
        if table.stopped || before == after {
            return Ok(());
        }
        let mut leave: IdMap<Place, Vec<Change>> = IdMap::default();
        let mut follow: IdMap<Place, Vec<Change>> = IdMap::default();
        for (tip, (leader, epoch)) in &table.assigned {
            let places = [before, after].map(|threads| place_of(*tip, *leader, threads));
            if places[0] != places[1] {
                leave
                    .entry(places[0])
                    .or_default()
                    .push(Change::Leave(*tip));
                let joins = follow.entry(places[1]).or_default();
                joins.push(Change::Follow(*tip, *epoch));
            }
        }
        table.threads_per_leader = after;
        for (changes, by) in [(&leave, -1), (&follow, 1)] {
            for (place, changes) in changes {
                table.count(*place, by * changes.len() as isize);
            }
        }
        // Remove partitions from their old threads first, because two threads that follow one partition would
        // interfere.
        for (place, changes) in leave.into_iter().chain(follow) {
            self.tell(&mut table, place, changes, now)?;
        }
        Ok(())
    }

    fn tell(
        &self,
        table: &mut Table,
        place: Place,
        changes: Vec<Change>,
        now: Instant,
    ) -> std::io::Result<()> {
        let follows = |change: &Change| matches!(change, Change::Follow(..));
        if !table.threads.contains_key(&place) {
            if !changes.iter().any(follows) {
                return Ok(());
            }
            match self.start(place) {
                Ok(thread) => {
                    if let Some(address) = table.addresses.get(&place.0) {
                        thread.mailbox.move_to(address);
                    }
                    table.threads.insert(place, thread);
                }
                Err(error) => {
                    // The next assignment with the same epoch retries.
                    let threads = table.threads_per_leader;
                    table
                        .assigned
                        .retain(|tip, (leader, _)| place_of(*tip, *leader, threads) != place);
                    table.followed.remove(&place);
                    return Err(error);
                }
            }
        }
        if let Some(thread) = table.threads.get_mut(&place) {
            thread.mailbox.change(changes, now);
        }
        table.end_if_idle(place);
        Ok(())
    }

    fn start(&self, (leader, number): Place) -> std::io::Result<Thread> {
        let (mailbox, counters) = (Arc::new(Mailbox::default()), Arc::new(Counters::default()));
        let fetcher = Fetcher::new(
            leader,
            Arc::clone(&self.shared),
            Arc::clone(&mailbox),
            Arc::clone(&counters),
        );
        let handle = std::thread::Builder::new()
            .name(format!("fetcher-{leader}-{number}"))
            .spawn(move || fetcher.run())?;
        Ok(Thread {
            mailbox,
            counters,
            handle,
        })
    }

    /// Return the statistics of the threads, by leader.
    #[must_use]
    pub fn figures(&self) -> Vec<LeaderFigures> {
        let table = self.table.lock();
        let mut figures: BTreeMap<i32, LeaderFigures> = BTreeMap::new();
        for ((leader, _), thread) in &table.threads {
            let of_thread = thread.counters.read(*leader);
            match figures.get_mut(leader) {
                Some(sum) => sum.add(&of_thread),
                None => drop(figures.insert(*leader, of_thread)),
            }
        }
        figures.into_values().collect()
    }

    /// Stop all fetchers permanently. Within a second all appends end, even if a thread's fetch waits at the leader.
    pub fn stop(&self) {
        let mut table = self.table.lock();
        table.stopped = true;
        table.assigned.clear();
        table.followed.clear();
        let mut threads = std::mem::take(&mut table.ending);
        threads.extend(table.threads.drain().map(|(_, thread)| thread));
        drop(table);
        for thread in &threads {
            thread.mailbox.stop();
        }
        let deadline = self.shared.clock.now() + STOP_PATIENCE;
        for thread in threads {
            if thread.mailbox.wait_for_end(deadline) {
                // Ignore a panic of the thread; it was reported when it happened.
                let _ = thread.handle.join();
            }
        }
    }
}

impl Drop for Fetchers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Table {
    fn place(&mut self, broker: &Broker) {
        if self.addresses.get(&broker.id) != Some(&broker.address) {
            self.addresses.insert(broker.id, broker.address.clone());
            for number in 0..self.threads_per_leader {
                if let Some(thread) = self.threads.get(&(broker.id, number)) {
                    thread.mailbox.move_to(&broker.address);
                }
            }
        }
    }

    fn assign(
        &mut self,
        broker_id: i32,
        assignment: Assignment,
        changes: &mut IdMap<Place, Vec<Change>>,
    ) {
        let Assignment {
            tip,
            leader,
            leader_epoch,
        } = assignment;
        let threads = self.threads_per_leader;
        let place = |leader| place_of(tip, leader, threads);
        let before = self.assigned.get(&tip).copied();
        let nobody = leader < 0 || leader == broker_id;
        match before {
            Some((_, epoch)) if leader_epoch >= 0 && leader_epoch < epoch => return,
            Some((followed, epoch)) if (followed, epoch) == (leader, leader_epoch) => return,
            Some((followed, _)) if followed != leader => {
                changes
                    .entry(place(followed))
                    .or_default()
                    .push(Change::Leave(tip));
            }
            _ => {}
        }
        if let Some((followed, _)) = before {
            self.count(place(followed), -1);
        }
        if nobody {
            self.assigned.remove(&tip);
        } else {
            self.assigned.insert(tip, (leader, leader_epoch));
            self.count(place(leader), 1);
            let follow = Change::Follow(tip, leader_epoch);
            changes.entry(place(leader)).or_default().push(follow);
        }
    }

    /// Stop the thread if it follows no partition any more.
    fn end_if_idle(&mut self, place: Place) {
        if !self.followed.contains_key(&place)
            && let Some(thread) = self.threads.remove(&place)
        {
            thread.mailbox.stop();
            self.ending.push(thread);
        }
    }

    fn count(&mut self, place: Place, change: isize) {
        let followed = self.followed.entry(place).or_default();
        *followed = followed.saturating_add_signed(change);
        if *followed == 0 {
            self.followed.remove(&place);
        }
    }
}

/// Return the thread that follows this partition of that leader. The partitions of a topic are spread over the threads.
fn place_of(tip: TopicIdPartition, leader: i32, threads: u32) -> Place {
    let id = tip.topic_id.uuid().as_u128() as u32;
    (leader, id.wrapping_add(tip.partition as u32) % threads)
}
