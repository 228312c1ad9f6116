//! Aborted transactions whose markers are in a segment.

use super::Segment;
use crate::error::StorageError;
use crate::file_names::TXN_INDEX;
use crate::files;
use crate::txn_index::{self, AbortedTransaction};
use std::sync::atomic::Ordering;

const TXN_INDEX_BYTES_MAX: u64 = 1 << 30;

impl Segment {
    /// Return the aborted transactions whose marker is in this segment.
    pub(crate) fn aborted(&self) -> Result<Vec<AbortedTransaction>, StorageError> {
        let mut aborted = self.aborted.lock();
        if let Some(known) = &*aborted {
            return Ok(known.clone());
        }
        let path = self.path(TXN_INDEX);
        let content = files::read_if_there(&path, TXN_INDEX_BYTES_MAX)?;
        let parsed = txn_index::parse(&content.unwrap_or_default()).ok_or_else(|| {
            StorageError::Corrupt {
                path,
                reason: "not a transaction index".into(),
            }
        })?;
        *aborted = Some(parsed.clone());
        Ok(parsed)
    }

    /// Add an aborted transaction to the list in memory and to the file.
    pub(crate) fn add_aborted(&self, transaction: AbortedTransaction) -> Result<(), StorageError> {
        let known = self.aborted()?.len();
        let position = (known * txn_index::ENTRY_BYTES) as u64;
        self.write_index(TXN_INDEX, position, &transaction.to_bytes())?;
        self.indexes_dirty.store(true, Ordering::Release);
        if let Some(list) = &mut *self.aborted.lock() {
            list.push(transaction);
        }
        Ok(())
    }

    /// Replace the transaction index, during recovery or a truncation.
    pub(crate) fn set_aborted(&self, list: Vec<AbortedTransaction>) -> Result<(), StorageError> {
        let path = self.path(TXN_INDEX);
        if list.is_empty() {
            files::remove(&path)?;
        } else {
            let bytes: Vec<u8> = list.iter().flat_map(|t| t.to_bytes()).collect();
            files::write_replacing(&path, &bytes)?;
            self.indexes_dirty.store(true, Ordering::Release);
        }
        *self.aborted.lock() = Some(list);
        Ok(())
    }
}
