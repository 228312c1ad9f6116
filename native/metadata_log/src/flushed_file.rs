//! The file `flushed-offset`: a lower bound of the offset up to which the log was on disk. A log that ends before this
//! offset, or is invalid before it, is damaged. Invalid bytes after this offset may be a torn write from a crash.
//!
//! The log rewrites the file after each flush, usually without a sync: the offset is exact after a crash of the
//! process, and may be older after a power loss. Before it truncates below the offset, the log lowers it durably.

use std::io;

use pybroker_model::crc32c;

use crate::error::LogError;
use crate::files::{FileHandle, Files};
use crate::names::FLUSHED_OFFSET;

const LINE_BYTES: usize = 30;

/// The open file.
#[derive(Debug)]
pub(crate) struct FlushedFile<F: Files> {
    file: F::File,
    path: String,
    /// The offset in the file.
    pub(crate) offset: i64,
}

impl<F: Files> FlushedFile<F> {
    /// Open or create the file. A damaged line, which a power loss may leave, counts as offset 0.
    pub(crate) fn open(files: &F, names: &[String]) -> Result<Self, LogError> {
        let path = files.path_of(FLUSHED_OFFSET);
        let there = names.iter().any(|name| name == FLUSHED_OFFSET);
        let file = match there {
            true => files.open(FLUSHED_OFFSET),
            false => files.create(FLUSHED_OFFSET),
        };
        let file = file.map_err(LogError::io("open", path.clone()))?;
        let mut line = [0; LINE_BYTES];
        let read = file
            .read_at(&mut line, 0)
            .map_err(LogError::io("read", path.clone()))?;
        let offset = std::str::from_utf8(&line[..read]).ok().and_then(parse);
        Ok(Self {
            file,
            path,
            offset: offset.unwrap_or(0),
        })
    }

    /// Raise the offset in the file. If the disk is full, the file keeps a lower offset or none.
    pub(crate) fn raise(&mut self, offset: i64) -> Result<(), LogError> {
        match self.write(offset) {
            Err(error) if error.kind() != io::ErrorKind::StorageFull => {
                Err(LogError::io("write", self.path.clone())(error))
            }
            _ => Ok(()),
        }
    }

    /// Set the offset in the file durably.
    pub(crate) fn set_durably(&mut self, offset: i64) -> Result<(), LogError> {
        self.write(offset)
            .and_then(|()| self.file.sync())
            .map_err(LogError::io("write", self.path.clone()))
    }

    fn write(&mut self, offset: i64) -> io::Result<()> {
        self.file.write_at(render(offset).as_bytes(), 0)?;
        self.offset = offset;
        Ok(())
    }

    pub(crate) fn begin_sync(&self) -> <F::File as FileHandle>::Sync {
        self.file.begin_sync()
    }
}

fn render(offset: i64) -> String {
    let digits = format!("{offset:020}");
    let line = format!("{digits} {:08x}\n", crc32c(digits.as_bytes()));
    debug_assert_eq!(line.len(), LINE_BYTES);
    line
}

fn parse(line: &str) -> Option<i64> {
    let (digits, checksum) = line.trim_end().split_once(' ')?;
    let intact = u32::from_str_radix(checksum, 16).ok()? == crc32c(digits.as_bytes());
    intact.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_intact_or_says_nothing() {
        assert_eq!(parse(&render(123)), Some(123));
        assert_eq!(parse(&render(123).replace('1', "2")), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("\0\0"), None);
    }
}
