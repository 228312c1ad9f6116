//! Opening a log: make a [`Log`] from the result of recovery.

use super::{Log, NOTHING_LOST, Writer};
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::LOG;
use crate::handles::HandleCache;
use crate::health::Health;
use crate::journal;
use crate::producer_state::{ProducerCount, ProducerShare};
use crate::recovery::{OpenState, RecoveryReport, recover};
use crate::segment::Segment;
use crate::staged::links;
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use pybroker_model::TopicIdPartition;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8};
use std::sync::{Arc, OnceLock};

impl Log {
    /// Open a log from its files. [`crate::LogDir::open_log`] passes the objects that all logs of the directory share.
    #[allow(clippy::too_many_arguments)] // each argument is one fact about the log, named by the only caller
    pub(crate) fn open(
        path: PathBuf,
        topic: &str,
        id: TopicIdPartition,
        config: Arc<LogConfig>,
        state: &OpenState,
        health: &Arc<Health>,
        handles: &Arc<HandleCache>,
        producers: &Arc<ProducerCount>,
        journal: journal::OfLog,
        now_ms: i64,
    ) -> Result<(Arc<Self>, RecoveryReport), StorageError> {
        let dir = Arc::new(RwLock::new(path));
        let mut found = recover(&dir, handles, &config, state, now_ms)?;
        if let Some(last) = found.segments.last()
            && last.size() > 0
            && links::is_shared(&last.path(LOG))?
        {
            // Begin a new segment, because later appends must not grow the staged file that this log links to.
            let fresh = Segment::fresh(found.log_end, &dir, handles, now_ms);
            found.segments.push(Arc::new(fresh));
        }
        let active = Arc::clone(&found.segments[found.segments.len() - 1]);
        // After a clean stop everything is on disk. After a crash, scanned records may be only in the page cache, where
        // a power loss removes them. The first flush covers them.
        let flushed = if found.report.clean {
            found.log_end
        } else {
            state
                .recovery_point
                .unwrap_or(0)
                .clamp(found.log_start.min(found.log_end), found.log_end)
        };
        let log = Self {
            id,
            topic: topic.to_owned(),
            dir,
            handles: Arc::clone(handles),
            health: Arc::clone(health),
            config: ArcSwap::new(config),
            segments: ArcSwap::new(Arc::new(found.segments)),
            log_start: AtomicI64::new(found.log_start),
            log_end: AtomicI64::new(found.log_end),
            flushed_end: AtomicI64::new(flushed),
            synced_end: AtomicI64::new(flushed),
            has_transactions: AtomicBool::new(!found.transactions.is_empty()),
            transactions: Mutex::new(found.transactions),
            epochs: RwLock::new(found.epochs),
            epochs_unwritten: AtomicBool::new(false),
            epochs_dirty: AtomicBool::new(false),
            epochs_file: Mutex::new(()),
            producer_share: ProducerShare::new(producers, found.producers.len()),
            writer: Mutex::new(Writer {
                active,
                producers: found.producers,
                checkpoint_snapshot: found.checkpoint_snapshot,
                closed: false,
            }),
            flush: Mutex::new(()),
            staged: AtomicBool::new(false),
            truncations: Mutex::new(0),
            journal,
            flush_state: AtomicU8::new(0),
            on_flush: OnceLock::new(),
            deleted_files: Mutex::new(
                found
                    .deleted_files
                    .into_iter()
                    .map(|path| (now_ms, path))
                    .collect(),
            ),
            damage_noted: Mutex::default(),
            has_damage_noted: AtomicBool::new(false),
            cleaned_to: AtomicI64::new(
                state
                    .cleaned_to
                    .unwrap_or(0)
                    .clamp(found.log_start, found.log_end.max(found.log_start)),
            ),
            maintenance: Mutex::new(()),
            lost_from: AtomicI64::new(
                found
                    .report
                    .lost
                    .iter()
                    .map(|(first, _)| *first)
                    .min()
                    .unwrap_or(NOTHING_LOST),
            ),
        };
        if found.epochs_changed {
            log.rewrite_epochs()?;
        }
        log.purge_deleted_files(now_ms)?;
        Ok((Arc::new(log), found.report))
    }
}
