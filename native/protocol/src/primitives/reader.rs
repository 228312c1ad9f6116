//! Reader of primitive types with bounds checks.

use pybroker_model::Uuid;

use super::ELEMENTS_MAX;

/// Error of an invalid message from outside the broker. The receiver closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A field extends beyond the end of the message.
    #[error("the message ends inside a field")]
    Truncated,
    /// A length or count is below −1 or out of range.
    #[error("a length is negative")]
    NegativeLength,
    /// An array has more elements than the remaining bytes can hold.
    #[error("a count exceeds the bytes that remain")]
    CountTooLarge,
    /// One request has more elements than [`ELEMENTS_MAX`].
    #[error("the message has more than {ELEMENTS_MAX} elements")]
    TooManyElements,
    /// A varint has too many bytes, or a value out of its type's range.
    #[error("a varint is too long")]
    VarintTooLong,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// A field is null that the schema does not allow to be null.
    #[error("null in a field that cannot be null")]
    UnexpectedNull,
    /// The tags of a tagged section do not ascend strictly (KIP-482).
    #[error("tagged fields are not in ascending order")]
    TagsOutOfOrder,
    /// The reader of a known tagged field did not use all of its bytes.
    #[error("a tagged field has the wrong size")]
    TagSizeMismatch,
    /// Bytes remain after the last field, because the sender used another layout or sent garbage.
    #[error("bytes are left over after the message")]
    TrailingBytes,
    /// This codec does not know the version.
    #[error("the version is not one this message has")]
    UnsupportedVersion,
}

/// A range of a message's bytes that outlives the borrow of the message.
///
/// Produce stamps batches in place, so a decoded request cannot hold references into the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Position of the first byte, counted from the start of the [`Reader`]'s buffer.
    pub start: u32,
    /// Position after the last byte.
    pub end: u32,
}

impl Span {
    /// Return the bytes of this span in `buffer`, the buffer from which the span was read.
    ///
    /// # Panics
    ///
    /// If `buffer` is shorter than the buffer from which the span was read. That is a bug of the broker, not of a
    /// client.
    #[inline]
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start as usize..self.end as usize]
    }

    /// Return the span as a standard range.
    #[inline]
    pub fn range(self) -> core::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Return the number of bytes.
    #[inline]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Return whether the span is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// Reader that decodes the primitive types of a message from front to back.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    buffer: &'a [u8],
    position: usize,
    elements_left: u32,
}

impl<'a> Reader<'a> {
    /// Create a reader over one message with the default element budget.
    #[inline]
    pub fn new(buffer: &'a [u8]) -> Self {
        Self::with_budget(buffer, ELEMENTS_MAX)
    }

    /// Create a reader that accepts at most `elements` array elements in total.
    #[inline]
    pub fn with_budget(buffer: &'a [u8], elements: u32) -> Self {
        Reader {
            buffer,
            position: 0,
            elements_left: elements,
        }
    }

    /// Return how many more array elements the reader accepts.
    #[inline]
    pub fn elements_left(&self) -> u32 {
        self.elements_left
    }

    /// Return the offset of the next byte from the start of the buffer.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Return the number of unread bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.buffer.len() - self.position
    }

    /// Return the unread bytes.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.buffer[self.position..]
    }

    /// Return the next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        if count > self.remaining() {
            return Err(DecodeError::Truncated);
        }
        let taken = &self.buffer[self.position..self.position + count];
        self.position += count;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.buffer[self.position..].first_chunk::<N>() {
            Some(chunk) => {
                self.position += N;
                Ok(*chunk)
            }
            None => Err(DecodeError::Truncated),
        }
    }

    /// BOOLEAN: one byte, anything but 0 is true (as in Kafka).
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.array::<1>()?[0] != 0)
    }

    /// INT8.
    #[inline]
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    /// INT16.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// UINT16.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// INT32.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// UINT32.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// INT64.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// FLOAT64.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// UUID; all zero bits mean null.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        Ok(Uuid::from_bytes(self.array()?))
    }

    /// UNSIGNED_VARINT: at most 5 bytes and 32 bits.
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let first = self.array::<1>()?[0];
        if first < 0x80 {
            return Ok(u32::from(first));
        }
        let mut value = u32::from(first & 0x7f);
        for shift in [7, 14, 21, 28] {
            let byte = self.array::<1>()?[0];
            if shift == 28 && byte > 0x0f {
                return Err(DecodeError::VarintTooLong);
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong)
    }

    /// VARINT: zig-zag.
    #[inline]
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let raw = self.unsigned_varint()?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// VARLONG: zig-zag, at most 10 bytes and 64 bits.
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let mut raw = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.array::<1>()?[0];
            if shift == 63 && byte > 1 {
                return Err(DecodeError::VarintTooLong);
            }
            raw |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((raw >> 1) as i64 ^ -((raw & 1) as i64));
            }
        }
        Err(DecodeError::VarintTooLong)
    }

    /// Length of a string: `None` = null.
    #[inline]
    fn string_len(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        if flexible {
            return self.compact_len();
        }
        match self.i16()? {
            -1 => Ok(None),
            length if length < 0 => Err(DecodeError::NegativeLength),
            length => Ok(Some(length as usize)),
        }
    }

    /// Length of bytes, or count of an array: `None` = null.
    #[inline]
    fn long_len(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        if flexible {
            return self.compact_len();
        }
        match self.i32()? {
            -1 => Ok(None),
            length if length < 0 => Err(DecodeError::NegativeLength),
            length => Ok(Some(length as usize)),
        }
    }

    #[inline]
    fn compact_len(&mut self) -> Result<Option<usize>, DecodeError> {
        match self.unsigned_varint()? {
            0 => Ok(None),
            plus_one if plus_one > i32::MAX as u32 => Err(DecodeError::NegativeLength),
            plus_one => Ok(Some(plus_one as usize - 1)),
        }
    }

    /// (COMPACT_)NULLABLE_STRING.
    #[inline]
    pub fn nullable_string(&mut self, flexible: bool) -> Result<Option<&'a str>, DecodeError> {
        match self.nullable_string_bytes(flexible)? {
            None => Ok(None),
            Some(bytes) => core::str::from_utf8(bytes)
                .map(Some)
                .map_err(|_| DecodeError::NotUtf8),
        }
    }

    /// (COMPACT_)NULLABLE_STRING as bytes, for a caller that replaces invalid UTF-8.
    #[inline]
    pub fn nullable_string_bytes(
        &mut self,
        flexible: bool,
    ) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.string_len(flexible)? {
            None => Ok(None),
            Some(length) => self.take(length).map(Some),
        }
    }

    /// (COMPACT_)STRING.
    #[inline]
    pub fn string(&mut self, flexible: bool) -> Result<&'a str, DecodeError> {
        self.nullable_string(flexible)?
            .ok_or(DecodeError::UnexpectedNull)
    }

    /// (COMPACT_)STRING as a span whose bytes are verified UTF-8.
    #[inline]
    pub fn string_span(&mut self, flexible: bool) -> Result<Span, DecodeError> {
        let length = self.string(flexible)?.len();
        Ok(self.span_of_last(length))
    }

    /// (COMPACT_)NULLABLE_BYTES, also RECORDS.
    #[inline]
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.long_len(flexible)? {
            None => Ok(None),
            Some(length) => self.take(length).map(Some),
        }
    }

    /// (COMPACT_)BYTES.
    #[inline]
    pub fn bytes(&mut self, flexible: bool) -> Result<&'a [u8], DecodeError> {
        self.nullable_bytes(flexible)?
            .ok_or(DecodeError::UnexpectedNull)
    }

    /// (COMPACT_)NULLABLE_BYTES as a span.
    #[inline]
    pub fn nullable_bytes_span(&mut self, flexible: bool) -> Result<Option<Span>, DecodeError> {
        match self.nullable_bytes(flexible)? {
            None => Ok(None),
            Some(bytes) => Ok(Some(self.span_of_last(bytes.len()))),
        }
    }

    #[inline]
    fn span_of_last(&self, length: usize) -> Span {
        // A frame has at most i32::MAX bytes (its length prefix), so positions fit.
        Span {
            start: (self.position - length) as u32,
            end: self.position as u32,
        }
    }

    /// Read the count of a nullable array whose elements take at least `element_bytes_min` bytes each.
    ///
    /// The caller may reserve memory for the returned count, because the count fits into the remaining bytes and is
    /// charged to the element budget.
    #[inline]
    pub fn nullable_array(
        &mut self,
        flexible: bool,
        element_bytes_min: usize,
    ) -> Result<Option<usize>, DecodeError> {
        let Some(count) = self.long_len(flexible)? else {
            return Ok(None);
        };
        if count > self.remaining() / element_bytes_min.max(1) {
            return Err(DecodeError::CountTooLarge);
        }
        // remaining() is below 2^31, so the count fits u32.
        self.elements_left = self
            .elements_left
            .checked_sub(count as u32)
            .ok_or(DecodeError::TooManyElements)?;
        Ok(Some(count))
    }

    /// Read the count of an array that cannot be null. See [`Reader::nullable_array`].
    #[inline]
    pub fn array_len(
        &mut self,
        flexible: bool,
        element_bytes_min: usize,
    ) -> Result<usize, DecodeError> {
        self.nullable_array(flexible, element_bytes_min)?
            .ok_or(DecodeError::UnexpectedNull)
    }

    /// Skip a section of tagged fields in a flexible version. A legacy version has none.
    #[inline]
    pub fn skip_tags(&mut self, flexible: bool) -> Result<(), DecodeError> {
        if !flexible || self.buffer.get(self.position) == Some(&0) {
            self.position += usize::from(flexible);
            return Ok(());
        }
        self.tags(|_, _| Ok(false))
    }

    /// Read the section of tagged fields. Calls `known(tag, value)` for each field. The function returns whether it
    /// knows the tag; if it does, it must have read the value to its last byte. Other fields are skipped and never
    /// stored.
    pub fn tags(
        &mut self,
        known: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        self.tags_into(known)
    }

    /// Like [`Reader::tags`], with the caller's error type, because the schema codec's sinks have their own errors.
    pub fn tags_into<E: From<DecodeError>>(
        &mut self,
        mut known: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let count = self.unsigned_varint()? as usize;
        // A tagged field has at least two bytes: tag and size.
        if count > self.remaining() / 2 {
            return Err(DecodeError::CountTooLarge.into());
        }
        let mut previous = None;
        for _ in 0..count {
            let tag = self.unsigned_varint()?;
            if previous.is_some_and(|previous| tag <= previous) {
                return Err(DecodeError::TagsOutOfOrder.into());
            }
            previous = Some(tag);
            let size = self.unsigned_varint()? as usize;
            if size > self.remaining() {
                return Err(DecodeError::Truncated.into());
            }
            let end = self.position + size;
            let mut value = Reader {
                buffer: &self.buffer[..end],
                position: self.position,
                elements_left: self.elements_left,
            };
            if known(tag, &mut value)? {
                if value.position != end {
                    return Err(DecodeError::TagSizeMismatch.into());
                }
                self.elements_left = value.elements_left;
            }
            self.position = end;
        }
        Ok(())
    }

    /// Check that the message ends here. Remaining bytes mean that the sender used another layout for this key and
    /// version.
    #[inline]
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.remaining() == 0 {
            Ok(())
        } else {
            Err(DecodeError::TrailingBytes)
        }
    }
}
