//! Health of a log directory, shared by its logs and its flusher.

use crate::error::StorageError;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A callback that is called once, with the reason, when the directory goes offline.
pub type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// Health of a log directory. The first failure is final.
pub(crate) struct Health {
    path: PathBuf,
    failed: AtomicBool,
    reason: Mutex<Option<String>>,
    on_failure: Mutex<Option<OnFailure>>,
    /// Writes that failed because the disk is full.
    full_refusals: AtomicU64,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health")
            .field("path", &self.path)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Health {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            failed: AtomicBool::new(false),
            reason: Mutex::new(None),
            on_failure: Mutex::new(None),
            full_refusals: AtomicU64::new(0),
        }
    }

    /// Set the callback; replaces the previous one.
    pub(crate) fn set_on_failure(&self, callback: OnFailure) {
        *self.on_failure.lock() = Some(callback);
    }

    /// Return an error if the directory is offline.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let reason = self.reason.lock().clone().unwrap_or_default();
        Err(StorageError::Offline {
            path: self.path.clone(),
            reason,
        })
    }

    /// Record a failed operation: a full disk is counted, a failing disk takes the directory offline.
    pub(crate) fn note(&self, error: &StorageError) {
        if matches!(error, StorageError::Full { .. }) {
            self.full_refusals.fetch_add(1, Ordering::Relaxed);
        } else if error.is_of_the_disk() {
            self.fail(&error.to_string());
        }
    }

    /// Return the number of writes refused since the start because the disk is full.
    pub(crate) fn full_refusals(&self) -> u64 {
        self.full_refusals.load(Ordering::Relaxed)
    }

    /// Take the directory offline.
    pub(crate) fn fail(&self, reason: &str) {
        {
            let mut first = self.reason.lock();
            if first.is_some() {
                return;
            }
            *first = Some(reason.to_owned());
            self.failed.store(true, Ordering::Release);
        }
        if let Some(callback) = &*self.on_failure.lock() {
            callback(reason);
        }
    }
}
