//! A record inside a batch.
//!
//! ```text
//! length varint | attributes i8 | timestamp delta varlong | offset delta varint
//! | key length varint, key | value length varint, value | header count varint
//! | { key length varint, key | value length varint, value } …      (length -1 = null)
//! ```

use crate::compression::{DECOMPRESSED_BYTES_MAX, decompress};
use crate::varint::{VARINT_BYTES_MAX, VARLONG_BYTES_MAX};
use crate::{BatchError, BatchHeader, Codec, HEADER_BYTES, read_varint, read_varlong};
use crate::{TimestampType, write_varint, write_varlong};

/// A record in the (decompressed) records of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// All bytes of the record, its length prefix included.
    pub raw: &'a [u8],
    /// Milliseconds since the base timestamp of the batch.
    pub timestamp_delta: i64,
    /// Offset minus the base offset of the batch.
    pub offset_delta: i32,
    /// The key, if not null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, already validated.
    pub headers: Headers<'a>,
}

/// A record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The header's key (bytes; Kafka specifies UTF-8 but does not check).
    pub key: &'a [u8],
    /// The header's value, if not null.
    pub value: Option<&'a [u8]>,
}

/// The headers of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    count: i32,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Return the number of headers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Return whether there are no headers.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        let (key, rest) = nullable(self.bytes).ok()?;
        let (value, rest) = nullable(rest).ok()?;
        self.count -= 1;
        self.bytes = rest;
        Some(Header { key: key?, value })
    }
}

/// Why parsing a record failed.
pub(crate) enum RecordError {
    /// The record is incomplete: it needs at least this number of bytes in total.
    Incomplete(usize),
    /// The bytes are not a record, even if more bytes follow.
    Malformed(&'static str),
}

/// Parse length-prefixed bytes, where length -1 means null. Return them and the remaining bytes.
#[inline]
fn nullable(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), &'static str> {
    let (length, read) = read_varint(bytes).ok_or("bad length")?;
    if length < 0 {
        return if length == -1 {
            Ok((None, &bytes[read..]))
        } else {
            Err("negative length")
        };
    }
    let end = read + length as usize;
    if end > bytes.len() {
        return Err("field exceeds its record");
    }
    Ok((Some(&bytes[read..end]), &bytes[end..]))
}

/// Parse the record at the front of `bytes`; check that its fields fill its length exactly.
#[inline]
pub(crate) fn parse_record(bytes: &[u8]) -> Result<RecordRef<'_>, RecordError> {
    let Some((length, prefix)) = read_varint(bytes) else {
        return Err(if bytes.len() < VARINT_BYTES_MAX {
            RecordError::Incomplete(bytes.len() + 1)
        } else {
            RecordError::Malformed("bad record length")
        });
    };
    if length < 0 {
        return Err(RecordError::Malformed("negative record length"));
    }
    let end = prefix + length as usize;
    if end > bytes.len() {
        return Err(RecordError::Incomplete(end));
    }
    parse_body(&bytes[..end], prefix).map_err(RecordError::Malformed)
}

#[inline]
fn parse_body(raw: &[u8], prefix: usize) -> Result<RecordRef<'_>, &'static str> {
    // Skip the attributes byte, which Kafka does not use so far.
    let rest = raw.get(prefix + 1..).ok_or("record without attributes")?;
    let (timestamp_delta, read) = read_varlong(rest).ok_or("bad timestamp delta")?;
    let rest = &rest[read..];
    let (offset_delta, read) = read_varint(rest).ok_or("bad offset delta")?;
    let (key, rest) = nullable(&rest[read..])?;
    let (value, rest) = nullable(rest)?;
    let (count, read) = read_varint(rest).ok_or("bad header count")?;
    let header_bytes = &rest[read..];
    if count < 0 {
        return Err("negative header count");
    }
    let mut unread = header_bytes;
    for _ in 0..count {
        // Each header takes at least one byte, so a hostile count fails at the end of the record.
        let (header_key, after_key) = nullable(unread)?;
        if header_key.is_none() {
            return Err("header without key");
        }
        unread = nullable(after_key)?.1;
    }
    if !unread.is_empty() {
        return Err("record is longer than its fields");
    }
    let headers = Headers {
        count,
        bytes: header_bytes,
    };
    Ok(RecordRef {
        raw,
        timestamp_delta,
        offset_delta,
        key,
        value,
        headers,
    })
}

impl RecordRef<'_> {
    /// Append this record with other deltas. Compaction needs this when it changes the base timestamp of a batch.
    pub fn write_with_deltas(&self, out: &mut Vec<u8>, timestamp_delta: i64, offset_delta: i32) {
        let old_deltas = varlong_and_varint_len(self.raw);
        let tail = &self.raw[old_deltas..];
        let mut deltas = Vec::with_capacity(VARLONG_BYTES_MAX + VARINT_BYTES_MAX);
        write_varlong(&mut deltas, timestamp_delta);
        write_varint(&mut deltas, offset_delta);
        write_varint(out, (1 + deltas.len() + tail.len()) as i32);
        out.push(0);
        out.extend_from_slice(&deltas);
        out.extend_from_slice(tail);
    }
}

/// Return the position of the key length in a validated record.
fn varlong_and_varint_len(raw: &[u8]) -> usize {
    let mut at = read_varint(raw).map_or(0, |(_, read)| read) + 1;
    at += read_varlong(&raw[at..]).map_or(0, |(_, read)| read);
    at + read_varint(&raw[at..]).map_or(0, |(_, read)| read)
}

/// Iterator over the records of one batch, in order. Ends after the header's count or at the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
    left: i32,
}

impl<'a> Records<'a> {
    /// Iterate over `records`: the decompressed bytes after the header, see [`decompressed_records`].
    #[must_use]
    pub const fn new(header: &BatchHeader, records: &'a [u8]) -> Self {
        Self {
            header: *header,
            bytes: records,
            left: header.record_count,
        }
    }

    /// Return the offset of `record` in its log.
    #[must_use]
    pub const fn offset(&self, record: &RecordRef<'_>) -> i64 {
        self.header
            .base_offset
            .saturating_add(record.offset_delta as i64)
    }

    /// Return the timestamp of `record`: its own, or the append time of the batch.
    #[must_use]
    pub fn timestamp(&self, record: &RecordRef<'_>) -> i64 {
        match self.header.timestamp_type() {
            TimestampType::CreateTime => self
                .header
                .base_timestamp
                .saturating_add(record.timestamp_delta),
            TimestampType::LogAppendTime => self.header.max_timestamp,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordRef<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        let index = self.header.record_count - self.left;
        match parse_record(self.bytes) {
            Ok(record) => {
                self.left -= 1;
                self.bytes = &self.bytes[record.raw.len()..];
                Some(Ok(record))
            }
            Err(error) => {
                self.left = 0;
                let reason = match error {
                    RecordError::Incomplete(_) => "fewer records than the header says",
                    RecordError::Malformed(reason) => reason,
                };
                Some(Err(BatchError::invalid_at(index, reason)))
            }
        }
    }
}

/// Return the records of `batch`, which must be a complete batch. Uncompressed records are a slice of it; others are
/// decompressed into `scratch`, at most [`DECOMPRESSED_BYTES_MAX`].
///
/// # Errors
///
/// If the codec is unknown, or the bytes do not decompress.
pub fn decompressed_records<'a>(
    header: &BatchHeader,
    batch: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], BatchError> {
    let Some(records) = batch.get(HEADER_BYTES..header.size_in_bytes()) else {
        return Err(BatchError::Truncated {
            needed: header.size_in_bytes(),
            got: batch.len(),
        });
    };
    match header.codec()? {
        Codec::None => Ok(records),
        codec => {
            scratch.clear();
            decompress(codec, records, scratch, DECOMPRESSED_BYTES_MAX)?;
            Ok(scratch)
        }
    }
}
