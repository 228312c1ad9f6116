//! Lookups of readers, which often repeat an offset or continue after the last batch.

use super::Segment;
use super::places::{ReaderPlace, TruncationCount};
use crate::error::StorageError;
use crate::file_names::LOG;
use crate::scan::{Depth, Scan};
use pybroker_model::BatchHeader;
use std::sync::atomic::Ordering;

/// Start of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadStart {
    /// Position of the first batch that reaches the offset.
    pub(crate) position: u64,
    /// The batch's size, if known without another read.
    bytes: Option<u32>,
    relative_offset: u32,
    truncations: TruncationCount,
}

impl Segment {
    /// Return whether the file is shorter than the written bytes, because something outside the broker has truncated
    /// it.
    pub(crate) fn is_cut(&self) -> Result<bool, StorageError> {
        Ok(self.bytes_in_file()? < self.size())
    }

    /// End the segment after the last complete batch in its file. Readers then continue in the next segment, as after a
    /// gap that compaction leaves. Return a description of the lost records.
    pub(crate) fn end_before_the_cut(&self) -> Result<String, StorageError> {
        let file = self.file(false)?;
        let path = || self.path(LOG);
        let bytes = self.bytes_in_file()?;
        let before = self.end();
        let (mut position, mut end_offset) = (0, self.base_offset);
        let mut scan = Scan::new(&file, &path, Depth::Headers, 0, bytes);
        while let Ok(Some((at, header, _))) = scan.next() {
            position = at + header.size_in_bytes() as u64;
            end_offset = header.next_offset();
        }
        self.set_end(end_offset, position);
        self.damaged.store(true, Ordering::Release);
        let next = self.base_offset + i64::from(before.relative_offset);
        Ok(format!(
            "records {end_offset} to {} are lost: {} was cut from {} to {bytes} bytes. Consumers skip them",
            next - 1,
            path().display(),
            before.position
        ))
    }

    fn bytes_in_file(&self) -> Result<u64, StorageError> {
        let metadata = self.file(false)?.file().metadata();
        metadata
            .map(|metadata| metadata.len())
            .map_err(|error| StorageError::io("look at", &self.path(LOG))(error))
    }

    /// Like [`Segment::find`], for a reader: remembers the result.
    pub(crate) fn find_start(&self, offset: i64) -> Result<Option<ReadStart>, StorageError> {
        let relative_offset = u32::try_from(offset - self.base_offset).unwrap_or(0);
        // Read the remembered position before the end: a position that is used is then never beyond the end.
        let (known, truncations) = self.readers.get(relative_offset);
        let end = self.end();
        let asked = offset >= self.base_offset && relative_offset < end.relative_offset;
        if let Some(place) = known.filter(|place| {
            asked
                && u64::from(place.position) + u64::from(place.bytes.unwrap_or(1))
                    <= u64::from(end.position)
        }) {
            return Ok(Some(ReadStart {
                position: u64::from(place.position),
                bytes: place.bytes,
                relative_offset,
                truncations,
            }));
        }
        let Some(found) = self.find(offset)? else {
            return Ok(None);
        };
        let mut start = ReadStart {
            position: found.position,
            bytes: None,
            relative_offset,
            truncations,
        };
        if let Some(header) = found.header.filter(|_| offset >= self.base_offset) {
            self.note_reader(&mut start, &header);
        }
        Ok(Some(start))
    }

    /// Return the size of the first batch of a read.
    pub(crate) fn first_bytes(&self, start: &mut ReadStart) -> Result<usize, StorageError> {
        if let Some(bytes) = start.bytes {
            return Ok(bytes as usize);
        }
        let header = self.header_at(start.position)?;
        self.note_reader(start, &header);
        Ok(header.size_in_bytes())
    }

    /// Remember the position of the batch, for a repeated fetch, and its end, for the next fetch.
    fn note_reader(&self, start: &mut ReadStart, header: &BatchHeader) {
        let bytes = header.size_in_bytes() as u32;
        start.bytes = Some(bytes);
        let position = start.position as u32;
        self.readers.note(
            start.truncations,
            ReaderPlace {
                relative_offset: start.relative_offset,
                position,
                bytes: Some(bytes),
            },
        );
        let next = u32::try_from(header.last_offset() + 1 - self.base_offset);
        if let (Ok(relative_offset), Some(position)) = (next, position.checked_add(bytes)) {
            self.readers.note(
                start.truncations,
                ReaderPlace {
                    relative_offset,
                    position,
                    bytes: None,
                },
            );
        }
    }
}
