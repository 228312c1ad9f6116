//! The log of one partition: a row of segments, one writer, readers without locks.
//!
//! # Who sees what
//! `log_end` moves after the bytes are in the file (page cache); `flushed_end` after they are on
//! disk, in the file or in the log directory's journal; `synced_end` after they are so in the file. All only move back
//! when a follower truncates. A reader takes the segment list and the
//! ends as it finds them; a segment removed under it stays readable through its open file, and a
//! file that is gone before it was opened is looked up again in the new list.
//!
//! # Crash promises
//! What `flush` returned for survives a power cut, with its leader epochs. After any crash
//! the log is a prefix of what was appended, cut at a batch boundary, at least up to there.

use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names;
use crate::handles::HandleCache;
use crate::health::Health;
use crate::journal;
use crate::leader_epochs::{EpochEntry, LeaderEpochs};
use crate::producer_state::{ActiveProducer, ProducerLegacy, ProducerState, Transactions};
use crate::segment::{DirPath, Segment, Segments};
use crate::woken::Woken;
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

pub use append::Appended;
#[cfg(test)]
pub(crate) use attach::Step;
pub use attach::{AttachNotice, Attached};
pub use compaction::{Cleanable, Compacted};
pub use delete::Retained;
pub(crate) use journaled::{JournalSample, Waiting};
pub use read::LogSlice;
pub use times::TimestampAndOffset;

/// Called with the flushed end after each flush that moved it. Whom it wakes it adds: they are woken when all logs of
/// the flush have been told.
pub type OnFlush = Box<dyn Fn(i64, &mut Woken) + Send + Sync>;

/// [`Log::lost_from`] of a log that is whole.
const NOTHING_LOST: i64 = i64::MAX;

/// What only the holder of the writer lock may touch.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) active: Arc<Segment>,
    pub(crate) producers: ProducerState,
    /// Offset of the last producer snapshot taken between rolls; the next one replaces it.
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
    /// Never above `flushed_end`: what lies between may be in the journal only.
    pub(crate) synced_end: AtomicI64,
    /// Whether `transactions` has anything: most logs never look into it.
    pub(crate) has_transactions: AtomicBool,
    pub(crate) transactions: Mutex<Transactions>,
    pub(crate) epochs: RwLock<LeaderEpochs>,
    /// Epochs that are in memory only; the next append writes them first.
    pub(crate) epochs_unwritten: AtomicBool,
    /// Epochs that are in memory and in the file, but maybe not on disk.
    pub(crate) epochs_dirty: AtomicBool,
    /// Held while the epochs' file is written.
    pub(crate) epochs_file: Mutex<()>,
    pub(crate) writer: Mutex<Writer>,
    /// Held while syncing files, and by those who change what a sync means (truncation).
    pub(crate) flush: Mutex<()>,
    /// Its directory was moved away to be deleted: there is nothing to sync any more.
    pub(crate) staged: AtomicBool,
    /// Begins and ends of truncations: what a sync has covered is published under this lock, and only if no truncation
    /// was under way when it began and none has begun since.
    pub(crate) truncations: Mutex<u64>,
    /// Where small appends become durable.
    pub(crate) journal: journal::OfLog,
    pub(crate) flush_state: AtomicU8,
    pub(crate) on_flush: OnceLock<OnFlush>,
    /// Files renamed to `.deleted`, and when they may go.
    pub(crate) deleted_files: Mutex<Vec<(i64, PathBuf)>>,
    /// Damage that readers met and nobody has reported yet; the flag says whether there is any.
    pub(crate) damage_noted: Mutex<Vec<String>>,
    pub(crate) has_damage_noted: AtomicBool,
    /// First offset that recovery found damaged and took out, and that nobody has brought back since.
    lost_from: AtomicI64,
    /// Compaction: first offset not yet compacted.
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
    /// The partition.
    #[must_use]
    pub const fn id(&self) -> TopicIdPartition {
        self.id
    }

    /// The topic's name at the time the log was opened; used in checkpoints only.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition's directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.dir.read().clone()
    }

    /// First offset that may be read.
    #[must_use]
    pub fn log_start_offset(&self) -> i64 {
        self.log_start.load(Ordering::Acquire)
    }

    /// Offset of the next record.
    #[must_use]
    pub fn log_end_offset(&self) -> i64 {
        self.log_end.load(Ordering::Acquire)
    }

    /// Everything below is on disk, in the log's files or in the journal.
    #[must_use]
    pub fn flushed_end_offset(&self) -> i64 {
        self.flushed_end.load(Ordering::Acquire)
    }

    /// Everything below is on disk in the log's files.
    pub(crate) fn synced_end_offset(&self) -> i64 {
        self.synced_end.load(Ordering::Acquire)
    }

    /// Records appended but not known to be on disk.
    #[must_use]
    pub fn unflushed_records(&self) -> i64 {
        self.log_end_offset() - self.flushed_end_offset()
    }

    /// The last stable offset when the high watermark is at `high_watermark`: the first offset
    /// whose transaction is open, or ended by a marker not yet below the high watermark. Never below
    /// the log start: a transaction stays open after its first records were deleted.
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

    /// Open transactions: (first offset, producer id).
    #[must_use]
    pub fn open_transactions(&self) -> Vec<(i64, i64)> {
        self.transactions.lock().ongoing().collect()
    }

    /// Whether a producer's transaction is open here, begun under this epoch.
    #[must_use]
    pub fn is_in_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.has_transactions.load(Ordering::Acquire)
            && self
                .writer
                .lock()
                .producers
                .is_in_transaction(producer_id, epoch)
    }

    /// Whether the log knows which sequence the next batch of this producer and epoch has.
    #[must_use]
    pub fn expects_next(&self, producer_id: i64, epoch: i16) -> bool {
        let writer = self.writer.lock();
        writer.producers.expects_next(producer_id, epoch)
    }

    /// The producers that the log knows.
    #[must_use]
    pub fn producers(&self) -> Vec<ActiveProducer> {
        self.writer.lock().producers.active()
    }

    /// Producers the log knows, for metrics.
    #[must_use]
    pub fn producer_count(&self) -> usize {
        self.writer.lock().producers.len()
    }

    /// What this log leaves to the next one of its topic's name, see [`ProducerLegacy`].
    #[must_use]
    pub fn producer_legacy(&self) -> ProducerLegacy {
        self.writer.lock().producers.legacy()
    }

    /// Takes what the log before it left: where the producers that it knew go on.
    pub fn inherit_producers(&self, legacy: ProducerLegacy) {
        self.writer.lock().producers.inherit(legacy);
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// Changes the settings; the next operation uses them.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        self.config.store(config);
    }

    /// Bytes of all segments, without indexes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.segments
            .load()
            .iter()
            .map(|segment| segment.size())
            .sum()
    }

    /// Number of segments.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments.load().len()
    }

    /// Calls `callback` with the flushed end after each flush that moved it. Only the first call
    /// counts.
    pub fn set_on_flush(&self, callback: OnFlush) {
        // A second owner would be a bug of ours; the first keeps being served.
        let second = self.on_flush.set(callback).is_err();
        debug_assert!(!second, "on_flush is set once");
    }

    /// The latest leader epoch and where it began.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<EpochEntry> {
        self.epochs.read().latest()
    }

    /// All leader epochs, ascending.
    #[must_use]
    pub fn leader_epochs(&self) -> Vec<EpochEntry> {
        self.epochs.read().entries().to_vec()
    }

    /// OffsetForLeaderEpoch: the largest known epoch not above `epoch` and the offset after its
    /// last record. Below the first known epoch: (`epoch`, log start). `None`: not known.
    #[must_use]
    pub fn end_offset_for(&self, epoch: i32) -> Option<(i32, i64)> {
        let (start, end) = (self.log_start_offset(), self.log_end_offset());
        self.epochs.read().end_offset_for(epoch, start, end)
    }

    /// The first leader epoch that is known of the log; `None` before it had a leader.
    #[must_use]
    pub fn first_epoch(&self) -> Option<i32> {
        self.epochs.read().first()
    }

    /// The leader epoch in which the record at `offset` was written.
    #[must_use]
    pub fn epoch_for(&self, offset: i64) -> Option<i32> {
        self.epochs.read().epoch_for(offset)
    }

    /// The segment that holds `offset`, by its base.
    pub(crate) fn segment_index(segments: &Segments, offset: i64) -> usize {
        segments
            .partition_point(|segment| segment.base_offset <= offset)
            .saturating_sub(1)
    }

    pub(crate) fn epochs_path(&self) -> PathBuf {
        self.dir.read().join(file_names::LEADER_EPOCHS)
    }

    /// Whether the log may be used at all.
    pub(crate) fn check_usable(&self, closed: bool) -> Result<(), StorageError> {
        if closed {
            return Err(StorageError::Closed {
                path: self.directory(),
            });
        }
        self.health.check()
    }

    /// A failure that puts the data of the whole directory in doubt: it goes offline for good.
    pub(crate) fn fatal(&self, error: StorageError) -> StorageError {
        self.health.note(&error);
        error
    }

    /// A sync failed. Whatever the reason, a full disk included: the kernel has dropped pages that nobody can
    /// write again, so the directory goes offline.
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
