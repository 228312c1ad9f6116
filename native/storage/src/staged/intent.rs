//! `intent`: the log offsets of a partition's staged files. The file has one line of fixed length with a checksum,
//! which is written in place. So a single small sync makes it durable under the log's lock.

use crate::error::StorageError;
use crate::files;
use pybroker_model::crc32c;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

const BYTES: usize = 96;

/// Progress of an attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    /// Offset of the first record.
    pub(crate) base: i64,
    /// Offset after the last record.
    pub(crate) end: i64,
    /// Epoch of the leader that attaches.
    pub(crate) leader_epoch: i32,
    /// LogAppendTime of the records, -1 if the topic does not use it.
    pub(crate) append_time: i64,
    /// State of the attach.
    pub(crate) state: State,
    /// Number of the attached plan.
    pub(crate) plan: u32,
}

/// State of an attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Files are being linked. After a crash the next start completes this.
    Linking,
    /// One write appends the records. After a crash they are complete, or recovery truncates them.
    Copying,
    /// The records are in the log, durably.
    Done,
}

impl State {
    const ALL: [Self; 3] = [Self::Linking, Self::Copying, Self::Done];

    const fn code(self) -> char {
        match self {
            Self::Linking => 'L',
            Self::Copying => 'C',
            Self::Done => 'D',
        }
    }
}

impl Intent {
    fn render(&self) -> String {
        let body = format!(
            "{:020} {:020} {:+011} {:+020} {} {:08x}",
            self.base,
            self.end,
            self.leader_epoch,
            self.append_time,
            self.state.code(),
            self.plan
        );
        let line = format!("{body} {:08x}", crc32c(body.as_bytes()));
        format!("{line:<width$}\n", width = BYTES - 1)
    }

    fn parse(text: &str) -> Option<Self> {
        let (body, crc) = text.trim_end().rsplit_once(' ')?;
        if u32::from_str_radix(crc, 16).ok()? != crc32c(body.as_bytes()) {
            return None;
        }
        let mut fields = body.split(' ');
        let mut next = || fields.next();
        Some(Self {
            base: next()?.parse().ok()?,
            end: next()?.parse().ok()?,
            leader_epoch: next()?.parse().ok()?,
            append_time: next()?.parse().ok()?,
            state: next().and_then(|code| {
                let all = State::ALL.into_iter();
                all.into_iter()
                    .find(|state| code == state.code().to_string())
            })?,
            // Files of earlier builds have no plan number, because there was only one plan.
            plan: match next() {
                Some(number) => u32::from_str_radix(number, 16).ok()?,
                None => 0,
            },
        })
    }
}

/// Create a blank file with allocated blocks. It is durable once its directory is synced. An existing file stays,
/// because a late prepare must not undo an attach.
pub(crate) fn prepare(path: &Path) -> Result<(), StorageError> {
    if std::fs::metadata(path).is_ok_and(|there| there.len() == BYTES as u64) {
        return Ok(());
    }
    let file = File::create(path).map_err(StorageError::io("create", path))?;
    file.write_all_at(&[b' '; BYTES], 0)
        .and_then(|()| files::sync_data(&file))
        .map_err(StorageError::io("write", path))
}

/// Write the intent, or a blank; durable on return.
pub(crate) fn write(path: &Path, intent: Option<&Intent>) -> Result<(), StorageError> {
    let text = intent.map_or_else(|| " ".repeat(BYTES), Intent::render);
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(StorageError::io("open", path))?;
    file.write_all_at(text.as_bytes(), 0)
        .and_then(|()| files::sync_data(&file))
        .map_err(StorageError::io("write", path))
}

/// Read the intent. Return `None` if there is none or it is incomplete; in both cases nothing was linked.
pub(crate) fn read(path: &Path) -> Result<Option<Intent>, StorageError> {
    let content = files::read_if_there(path, BYTES as u64)?;
    Ok(content
        .as_deref()
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .and_then(Intent::parse))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_is_whole_or_none() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("intent");
        assert_eq!(read(&path).expect("reads"), None);
        prepare(&path).expect("prepares");
        assert_eq!(read(&path).expect("reads"), None);
        for intent in [
            Intent {
                base: 0,
                end: i64::MAX,
                leader_epoch: i32::MAX,
                append_time: -1,
                state: State::Linking,
                plan: u32::MAX,
            },
            Intent {
                base: 17,
                end: 20,
                leader_epoch: -1,
                append_time: i64::MAX,
                state: State::Done,
                plan: 0,
            },
        ] {
            write(&path, Some(&intent)).expect("writes");
            assert_eq!(std::fs::metadata(&path).expect("file").len(), BYTES as u64);
            assert_eq!(read(&path).expect("reads"), Some(intent));
        }
        prepare(&path).expect("prepares");
        assert!(read(&path).expect("reads").is_some(), "what is there stays");
        let whole = std::fs::read(&path).expect("reads");
        for torn in 0..90 {
            let mut bytes = whole.clone();
            bytes[torn] ^= 1;
            std::fs::write(&path, &bytes).expect("writes");
            assert_eq!(read(&path).expect("reads"), None, "byte {torn}");
        }
        write(&path, None).expect("writes");
        assert_eq!(read(&path).expect("reads"), None);
    }
}
