//! A node with its threads.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use pybroker_metadata_log::{
    Directory, Endpoint, LogError, MetadataLog, SnapshotWriter, encode_records,
};
use pybroker_quorum::{EpochEnd, ReplicaKey, VoterSet};

use crate::clock::Clock;
use crate::disk::Disk;
use crate::driver::Driver;
use crate::inbox::{Inbox, Input};
use crate::outbox::Outbox;
use crate::output::Output;
use crate::settings::{NodeSettings, sender_of};
use crate::status::NodeStatus;
use crate::topic_id::TopicIdCell;
use crate::wire::{Api, Sender, WireError, decode_request};

/// The longest sleep of the node thread.
const SLEEP_MAX_MS: u64 = 3_600_000;

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The directory cannot be used, or a thread cannot start.
    #[error("cannot open the metadata log in {path}: {source}")]
    Io {
        /// The directory.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

/// A running node. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Node {
    inbox: Inbox,
    outbox: Outbox,
    driver: Arc<Mutex<Driver>>,
    sender: Arc<Sender>,
    clock: Clock,
    threads: Mutex<Option<JoinHandle<Result<(), LogError>>>>,
    snapshotting: Arc<AtomicBool>,
    topic_id: TopicIdCell,
}

impl Node {
    /// Return whether the directory of a log is formatted.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn is_formatted(directory: &Path) -> Result<bool, OpenError> {
        Ok(MetadataLog::is_formatted(&files_of(directory)?)?)
    }

    /// Format the directory of a log. `voters` are the first voters of a new cluster, or empty on a node that joins a
    /// cluster.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn format(
        directory: &Path,
        voters: impl IntoIterator<Item = ReplicaKey>,
        endpoints: &[Endpoint],
        timestamp_ms: i64,
    ) -> Result<(), OpenError> {
        let files = files_of(directory)?;
        let voters = VoterSet::new(voters);
        Ok(MetadataLog::format(
            &files,
            voters,
            endpoints,
            timestamp_ms,
        )?)
    }

    /// Open the log and start the threads. The node calls `wake` when there is output to take; `wake` must not block.
    ///
    /// # Errors
    /// If the log is not formatted, is damaged, or the disk fails.
    pub fn open(
        directory: &Path,
        settings: NodeSettings,
        clock: Clock,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let error = |source| OpenError::Io {
            path: directory.display().to_string(),
            source,
        };
        let files = files_of(directory)?;
        let (log, recovered) = MetadataLog::open(files.clone(), settings.log)?;
        let inbox = Inbox::default();
        let outbox = Outbox::new(Box::new(wake));
        let (disk, disk_thread) = Disk::start(inbox.clone()).map_err(error)?;
        let sender = Arc::new(sender_of(&settings));
        let driver = Driver::new(
            settings,
            Arc::clone(&sender),
            clock.clone(),
            (files, log),
            recovered,
            disk,
            outbox.clone(),
        )?;
        let topic_id = driver.topic_id();
        let driver = Arc::new(Mutex::new(driver));
        let threads = {
            let (driver, inbox, clock) = (Arc::clone(&driver), inbox.clone(), clock.clone());
            let run = move || run(&driver, &inbox, &clock, disk_thread);
            let thread = std::thread::Builder::new().name("quorum".into());
            thread.spawn(run).map_err(error)?
        };
        Ok(Self {
            inbox,
            outbox,
            driver,
            sender,
            clock,
            threads: Mutex::new(Some(threads)),
            snapshotting: Arc::default(),
            topic_id,
        })
    }

    /// Return the metadata topic's id in this node's log. The returned cell follows later changes.
    #[must_use]
    pub fn topic_id(&self) -> TopicIdCell {
        self.topic_id.clone()
    }

    /// Process a request of another node. The response comes as [`Output::Respond`] with the same handle.
    ///
    /// # Errors
    /// If `body` is not a message of the quorum. The node then sends no response.
    pub fn receive_request(
        &self,
        handle: u64,
        api_key: i16,
        api_version: i16,
        body: &[u8],
    ) -> Result<(), WireError> {
        let api = Api {
            key: api_key,
            version: api_version,
        };
        let incoming = Box::new(decode_request(api, body, &self.sender)?);
        self.inbox.push(Input::Request { handle, incoming });
        Ok(())
    }

    /// Process the response to an [`Output::Send`].
    pub fn receive_response(&self, correlation: u64, body: Bytes) {
        self.inbox.push(Input::Response { correlation, body });
    }

    /// Record that a request got no response. `refused`: the node's port refused the connection, or the connection
    /// broke and the port refuses a new one.
    pub fn request_failed(&self, correlation: u64, refused: bool) {
        self.inbox.push(Input::Failed {
            correlation,
            refused,
        });
    }

    /// Record that a node's port refuses connections.
    pub fn port_refused(&self, peer: i32) {
        self.inbox.push(Input::Refused { peer });
    }

    /// Append records as the leader of `epoch`. The outcome comes as [`Output::Decided`].
    ///
    /// # Errors
    /// If the records exceed 2 GiB.
    pub fn propose<'a>(
        &self,
        proposal: u64,
        epoch: i32,
        values: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), LogError> {
        let records = u32::try_from(values.len()).unwrap_or(u32::MAX);
        if records == 0 {
            return Err(LogError::Batch("a proposal without records".into()));
        }
        let data = encode_records(values, self.clock.wall_ms(), epoch)?;
        self.inbox.push(Input::Propose {
            proposal,
            epoch,
            records,
            data,
        });
        Ok(())
    }

    /// Make an observer a voter. The outcome comes as [`Output::Decided`].
    pub fn add_voter(&self, proposal: u64, voter: ReplicaKey, endpoints: Vec<Endpoint>) {
        self.driver.lock().learn(endpoints);
        self.inbox.push(Input::AddVoter { proposal, voter });
    }

    /// Make a voter an observer. The outcome comes as [`Output::Decided`].
    pub fn remove_voter(&self, proposal: u64, voter: ReplicaKey) {
        self.inbox.push(Input::RemoveVoter { proposal, voter });
    }

    /// Remember addresses of other nodes.
    pub fn learn(&self, endpoints: Vec<Endpoint>) {
        self.driver.lock().learn(endpoints);
    }

    /// Resign, if this node leads.
    pub fn resign(&self, successor: Option<i32>) {
        self.inbox.push(Input::Resign { successor });
    }

    /// Answer all waiting fetches, if this node leads, because the owner has data to send with the responses.
    pub fn answer_fetches(&self) {
        self.inbox.push(Input::AnswerFetches);
    }

    /// Take all outputs.
    pub fn take(&self) -> Vec<Output> {
        let (outputs, held_back) = self.outbox.take();
        if held_back {
            self.inbox.push(Input::Delivered);
        }
        outputs
    }

    /// Return this node's view of the quorum.
    pub fn status(&self) -> NodeStatus {
        self.driver.lock().status()
    }

    /// Begin a snapshot of the image as of `end`, the end of a committed batch. `timestamp_ms` is the append time of
    /// the last record in the image. `None` if `end` is not beyond the latest snapshot, or while another snapshot is
    /// being written.
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn begin_snapshot(
        &self,
        end: i64,
        timestamp_ms: i64,
    ) -> Result<Option<SnapshotTask>, LogError> {
        let turn = Turn::take(&self.snapshotting);
        let Some(turn) = turn else {
            return Ok(None);
        };
        let writer = self.driver.lock().begin_snapshot(end, timestamp_ms)?;
        Ok(writer.map(|writer| SnapshotTask {
            writer,
            inbox: self.inbox.clone(),
            _turn: turn,
        }))
    }

    /// Stop, and flush everything. Undecided proposals get the outcome `Unknown`.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn stop(&self) -> Result<(), LogError> {
        let Some(threads) = self.threads.lock().take() else {
            return Ok(());
        };
        self.inbox.push(Input::Stop);
        threads
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.inbox.push(Input::Stop);
    }
}

/// The right to write a snapshot; only one is written at a time.
#[derive(Debug)]
struct Turn(Arc<AtomicBool>);

impl Turn {
    fn take(flag: &Arc<AtomicBool>) -> Option<Self> {
        let taken = flag.swap(true, Ordering::AcqRel);
        (!taken).then(|| Self(Arc::clone(flag)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A snapshot that is being written. Its functions write and sync in the caller's thread.
#[derive(Debug)]
pub struct SnapshotTask {
    writer: SnapshotWriter<Directory>,
    inbox: Inbox,
    _turn: Turn,
}

impl SnapshotTask {
    /// Add records of the image.
    ///
    /// # Errors
    /// If the disk fails or is full; the caller must then abandon the snapshot.
    pub fn append<'a>(
        &mut self,
        values: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), LogError> {
        self.writer.append(values)
    }

    /// Complete the snapshot. The node then removes the files that it replaces.
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn finish(self) -> Result<EpochEnd, LogError> {
        let id = self.writer.finish()?;
        self.inbox.push(Input::SnapshotWritten(id));
        Ok(id)
    }
}

fn run(
    driver: &Arc<Mutex<Driver>>,
    inbox: &Inbox,
    clock: &Clock,
    disk: JoinHandle<()>,
) -> Result<(), LogError> {
    loop {
        let deadline = driver.lock().deadline();
        let wait = deadline.saturating_sub(clock.monotonic_ms());
        let inputs = inbox.take(Duration::from_millis(wait.min(SLEEP_MAX_MS)));
        if !driver.lock().take_in(inputs) {
            break;
        }
    }
    driver.lock().close_disk();
    disk.join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    driver.lock().close()
}

fn files_of(directory: &Path) -> Result<Directory, OpenError> {
    Directory::open(directory).map_err(|source| OpenError::Io {
        path: directory.display().to_string(),
        source,
    })
}
