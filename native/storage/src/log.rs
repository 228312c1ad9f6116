//! The log of one partition: a list of segments, one writer, readers without locks.
//!
//! # Visibility
//! `log_end` moves after the bytes are in the file (page cache); `flushed_end` after they are on disk, in the file or
//! in the log directory's journal; `synced_end` after they are on disk in the file. They move back only when a follower
//! truncates. A reader loads the segment list and the ends. A segment that is removed meanwhile stays readable through
//! its open file. If the file was not open yet, the reader looks up the offset again in the new list.
//!
//! # Crash safety
//! Records covered by a returned `flush` survive a power loss, with their leader epochs. After any crash the log is a
//! prefix of the appended records, cut at a batch boundary, and contains at least the flushed ones.

use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names;
use crate::handles::HandleCache;
use crate::health::Health;
use crate::journal;
use crate::leader_epochs::{EpochEntry, LeaderEpochs};
use crate::producer_state::{
    ActiveProducer, ProducerLegacy, ProducerShare, ProducerState, Transactions,
};
use crate::segment::{DirPath, Segment, Segments};
use crate::waker_batch::WakerBatch;
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use pybroker_model::TopicIdPartition;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

mod append;
mod attach;
mod compaction;
mod copies;
mod delete;
mod durable;
mod journaled;
mod open;
mod read;
mod replicate;
mod segments;
#[cfg(test)]
mod tests;
mod times;
mod truncate;
mod write;

pub use append::LogAppendInfo;
#[cfg(test)]
pub(crate) use attach::Step;
pub use attach::{AttachNotice, AttachResult};
pub use compaction::{Cleanable, CompactionResult};
pub use delete::RetentionResult;
pub(crate) use journaled::{JournalSample, UnflushedData};
pub use read::LogSlice;
pub use times::TimestampAndOffset;

/// A callback that the log calls after each flush that moved the flushed end, with that offset. The callback adds
/// wakers to [`WakerBatch`], which wakes them after every log in the flush has been notified.
pub type OnFlush = Box<dyn Fn(i64, &mut WakerBatch) + Send + Sync>;

/// Value of `lost_from` for an intact log.
const NOTHING_LOST: i64 = i64::MAX;

/// State guarded by the writer lock.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) active: Arc<Segment>,
    pub(crate) producers: ProducerState,
    /// Offset of the producer snapshot that the last checkpoint wrote. The next checkpoint replaces this snapshot;
    /// snapshots written at a roll stay.
    pub(crate) checkpoint_snapshot: Option<i64>,
    pub(crate) closed: bool,
}

/// One partition's log on one disk. All methods are synchronous; time is an argument.
pub struct Log {
    pub(crate) id: TopicIdPartition,
    pub(crate) topic: String,
    pub(crate) dir: DirPath,
    pub(crate) handles: Arc<HandleCache>,
    pub(crate) health: Arc<Health>,
    pub(crate) config: ArcSwap<LogConfig>,
    pub(crate) segments: ArcSwap<Segments>,
    pub(crate) log_start: AtomicI64,
    pub(crate) log_end: AtomicI64,
    pub(crate) flushed_end: AtomicI64,
    /// Never above `flushed_end`. Records between the two offsets may be only in the journal.
    pub(crate) synced_end: AtomicI64,
    /// Whether `transactions` has entries. Logs without transactions check only this flag.
    pub(crate) has_transactions: AtomicBool,
    pub(crate) transactions: Mutex<Transactions>,
    pub(crate) epochs: RwLock<LeaderEpochs>,
    /// Whether the epochs are only in memory. The next append then writes them to their file first.
    pub(crate) epochs_unwritten: AtomicBool,
    /// Whether the epochs are in the file but maybe not on disk.
    pub(crate) epochs_dirty: AtomicBool,
    /// Held while the epochs' file is written.
    pub(crate) epochs_file: Mutex<()>,
    pub(crate) writer: Mutex<Writer>,
    /// This log's share of the number of producers in all logs.
    pub(crate) producer_share: ProducerShare,
    /// Held during syncs of files, and by operations that change what a sync covers (truncation).
    pub(crate) flush: Mutex<()>,
    /// Whether the directory was moved away for deletion. Nothing needs to be synced then.
    pub(crate) staged: AtomicBool,
    /// Number of starts and ends of truncations. A sync publishes its result under this lock, and only if no truncation
    /// was running when the sync began and none has begun since.
    pub(crate) truncations: Mutex<u64>,
    /// The journal for small appends.
    pub(crate) journal: journal::OfLog,
    pub(crate) flush_state: AtomicU8,
    pub(crate) on_flush: OnceLock<OnFlush>,
    /// Files renamed to `.deleted`, with the time of their removal.
    pub(crate) deleted_files: Mutex<Vec<(i64, PathBuf)>>,
    /// Damage that readers found and the log has not reported yet. `has_damage_noted` says whether there is any.
    pub(crate) damage_noted: Mutex<Vec<String>>,
    pub(crate) has_damage_noted: AtomicBool,
    /// First offset that recovery removed as damaged and that the log has not received again from a leader.
    lost_from: AtomicI64,
    /// First offset that is not compacted yet.
    pub(crate) cleaned_to: AtomicI64,
    /// Serialises compaction, retention and truncation, which replace segments.
    pub(crate) maintenance: Mutex<()>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("id", &self.id)
            .field("dir", &self.directory())
            .field("log_start", &self.log_start_offset())
            .field("log_end", &self.log_end_offset())
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Return the topic id and partition index.
    #[must_use]
    pub const fn id(&self) -> TopicIdPartition {
        self.id
    }

    /// Return the topic's name when the log was opened; used only in checkpoints.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Return the partition's directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.dir.read().clone()
    }

    /// Return the log start offset.
    #[must_use]
    pub fn log_start_offset(&self) -> i64 {
        self.log_start.load(Ordering::Acquire)
    }

    /// Return the log end offset.
    #[must_use]
    pub fn log_end_offset(&self) -> i64 {
        self.log_end.load(Ordering::Acquire)
    }

    /// Return the flushed end: everything below is on disk, in the log's files or in the journal.
    #[must_use]
    pub fn flushed_end_offset(&self) -> i64 {
        self.flushed_end.load(Ordering::Acquire)
    }

    /// Return the synced end: everything below is on disk in the log's files.
    pub(crate) fn synced_end_offset(&self) -> i64 {
        self.synced_end.load(Ordering::Acquire)
    }

    /// Return the number of appended records that may not be on disk yet.
    #[must_use]
    pub fn unflushed_records(&self) -> i64 {
        self.log_end_offset() - self.flushed_end_offset()
    }

    /// Return the last stable offset for this high watermark: the first offset of a transaction that is open, or whose
    /// end marker is not below the high watermark yet. It is never below the log start, because a transaction stays
    /// open after its first records are deleted.
    #[must_use]
    pub fn last_stable_offset(&self, high_watermark: i64) -> i64 {
        if !self.has_transactions.load(Ordering::Acquire) {
            return high_watermark;
        }
        let mut transactions = self.transactions.lock();
        let first = transactions.first_unstable(high_watermark);
        if transactions.is_empty() {
            self.has_transactions.store(false, Ordering::Release);
        }
        first.map_or(high_watermark, |first| {
            first.max(self.log_start_offset()).min(high_watermark)
        })
    }

    /// Return the open transactions: (first offset, producer id).
    #[must_use]
    pub fn open_transactions(&self) -> Vec<(i64, i64)> {
        self.transactions.lock().ongoing().collect()
    }

    /// Return whether a transaction that the producer began under this epoch is open in this log.
    #[must_use]
    pub fn is_in_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.has_transactions.load(Ordering::Acquire)
            && self
                .writer
                .lock()
                .producers
                .is_in_transaction(producer_id, epoch)
    }

    /// Return whether the log knows the next sequence of this producer and epoch.
    #[must_use]
    pub fn expects_next(&self, producer_id: i64, epoch: i16) -> bool {
        let writer = self.writer.lock();
        writer.producers.expects_next(producer_id, epoch)
    }

    /// Return the known producers.
    #[must_use]
    pub fn producers(&self) -> Vec<ActiveProducer> {
        self.writer.lock().producers.active()
    }

    /// Return the producer state to carry over to the next incarnation, see [`ProducerLegacy`].
    #[must_use]
    pub fn producer_legacy(&self) -> ProducerLegacy {
        self.writer.lock().producers.legacy()
    }

    /// Take over producer state of the previous incarnation.
    pub fn inherit_producers(&self, legacy: ProducerLegacy) {
        self.writer.lock().producers.inherit(legacy);
    }

    /// Return the current settings.
    #[must_use]
    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// Change the settings; the next operation uses them.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        self.config.store(config);
    }

    /// Return the bytes of all segments, without indexes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.segments
            .load()
            .iter()
            .map(|segment| segment.size())
            .sum()
    }

    /// Return the number of segments.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments.load().len()
    }

    /// Set the callback for flushes that move the flushed end. Only the first call takes effect.
    pub fn set_on_flush(&self, callback: OnFlush) {
        // A second call would be a bug. The first callback stays.
        let second = self.on_flush.set(callback).is_err();
        debug_assert!(!second, "on_flush is set once");
    }

    /// Return the latest leader epoch and its start offset.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<EpochEntry> {
        self.epochs.read().latest()
    }

    /// Return all leader epochs, ascending.
    #[must_use]
    pub fn leader_epochs(&self) -> Vec<EpochEntry> {
        self.epochs.read().entries().to_vec()
    }

    /// Return the largest known epoch not above `epoch` and its end offset (OffsetForLeaderEpoch). Below the first
    /// known epoch, return `epoch` and the log start. `None` if the epoch is not known.
    #[must_use]
    pub fn end_offset_for(&self, epoch: i32) -> Option<(i32, i64)> {
        let (start, end) = (self.log_start_offset(), self.log_end_offset());
        self.epochs.read().end_offset_for(epoch, start, end)
    }

    /// Return the first known leader epoch; `None` before the log had a leader.
    #[must_use]
    pub fn first_epoch(&self) -> Option<i32> {
        self.epochs.read().first()
    }

    /// Return the leader epoch of the record at `offset`.
    #[must_use]
    pub fn epoch_for(&self, offset: i64) -> Option<i32> {
        self.epochs.read().epoch_for(offset)
    }

    /// Return the index of the segment that covers `offset`.
    pub(crate) fn segment_index(segments: &Segments, offset: i64) -> usize {
        segments
            .partition_point(|segment| segment.base_offset <= offset)
            .saturating_sub(1)
    }

    pub(crate) fn epochs_path(&self) -> PathBuf {
        self.dir.read().join(file_names::LEADER_EPOCHS)
    }

    /// Return an error if the log is closed or its directory offline.
    pub(crate) fn check_usable(&self, closed: bool) -> Result<(), StorageError> {
        if closed {
            return Err(StorageError::Closed {
                path: self.directory(),
            });
        }
        self.health.check()
    }

    /// Take the directory offline, because the failure makes all of its data doubtful.
    pub(crate) fn fatal(&self, error: StorageError) -> StorageError {
        self.health.note(&error);
        error
    }

    /// Take the directory offline after a failed sync of any cause, including a full disk: the kernel has dropped pages
    /// and cannot write them again.
    pub(crate) fn fatal_sync(&self, error: StorageError) -> StorageError {
        if !matches!(error, StorageError::Closed { .. }) {
            self.health.fail(&error.to_string());
        }
        error
    }

    pub(crate) fn publish_segments(&self, segments: Segments) {
        debug_assert!(
            segments
                .windows(2)
                .all(|pair| pair[0].base_offset < pair[1].base_offset)
        );
        debug_assert!(!segments.is_empty());
        self.segments.store(Arc::new(segments));
    }
}
