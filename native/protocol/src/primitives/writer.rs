//! Writer of primitive types. It appends to a `Vec<u8>` that the owner reuses.

use pybroker_model::Uuid;

/// Return the size of an UNSIGNED_VARINT of this value (1–5 bytes).
#[inline]
pub fn unsigned_varint_bytes(value: u32) -> usize {
    ((38 - value.leading_zeros()) as usize / 7).max(1)
}

/// Writer of primitive types, in the legacy or the flexible encoding of one message version.
#[derive(Debug)]
pub struct Writer<'v> {
    out: &'v mut Vec<u8>,
    flexible: bool,
}

impl<'v> Writer<'v> {
    /// Create a writer to `out`; `flexible` selects the encoding of lengths and whether tagged sections exist.
    #[inline]
    pub fn new(out: &'v mut Vec<u8>, flexible: bool) -> Self {
        Writer { out, flexible }
    }

    /// Return whether this version is flexible (KIP-482).
    #[inline]
    pub fn flexible(&self) -> bool {
        self.flexible
    }

    /// Return the length of the underlying buffer: the position of the next byte.
    #[inline]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Append raw bytes.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// BOOLEAN.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// INT8.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.raw(&value.to_be_bytes());
    }

    /// INT16.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    /// INT32.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    /// INT64.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    /// FLOAT64.
    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.raw(&value.to_be_bytes());
    }

    /// UUID.
    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.raw(&value.to_bytes());
    }

    /// UNSIGNED_VARINT.
    #[inline]
    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// Length of a string of `length` bytes (`None` = null).
    #[inline]
    fn string_len(&mut self, length: Option<usize>) {
        if self.flexible {
            self.unsigned_varint(length.map_or(0, |length| length as u32 + 1));
        } else {
            self.i16(length.map_or(-1, |length| length as i16));
        }
    }

    /// Length of bytes, or count of an array (`None` = null).
    #[inline]
    pub fn nullable_len(&mut self, length: Option<usize>) {
        if self.flexible {
            self.unsigned_varint(length.map_or(0, |length| length as u32 + 1));
        } else {
            self.i32(length.map_or(-1, |length| length as i32));
        }
    }

    /// Count of an array.
    #[inline]
    pub fn array_len(&mut self, count: usize) {
        self.nullable_len(Some(count));
    }

    /// (COMPACT_)STRING. The legacy form has at most `i16::MAX` bytes. Longer strings are truncated at a character
    /// boundary, which only affects the broker's own error texts.
    #[inline]
    pub fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    /// (COMPACT_)NULLABLE_STRING. See [`Writer::string`].
    #[inline]
    pub fn nullable_string(&mut self, value: Option<&str>) {
        let Some(value) = value else {
            return self.string_len(None);
        };
        let mut cut = value.len().min(i16::MAX as usize);
        while !value.is_char_boundary(cut) {
            cut -= 1;
        }
        self.string_len(Some(cut));
        self.raw(&value.as_bytes()[..cut]);
    }

    /// (COMPACT_)BYTES.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) {
        self.nullable_bytes(Some(value));
    }

    /// (COMPACT_)NULLABLE_BYTES.
    #[inline]
    pub fn nullable_bytes(&mut self, value: Option<&[u8]>) {
        self.nullable_len(value.map(<[u8]>::len));
        if let Some(value) = value {
            self.raw(value);
        }
    }

    /// Array of INT32.
    #[inline]
    pub fn i32_array(&mut self, values: &[i32]) {
        self.array_len(values.len());
        for value in values {
            self.i32(*value);
        }
    }

    /// Write an empty section of tagged fields. In a legacy version, write nothing.
    #[inline]
    pub fn no_tags(&mut self) {
        if self.flexible {
            self.out.push(0);
        }
    }

    /// Write the number of tagged fields that follow. Only for flexible versions.
    #[inline]
    pub fn tag_count(&mut self, count: u32) {
        self.unsigned_varint(count);
    }

    /// Write one tagged field. `write` appends its value. Because values are small, the value is written first and then
    /// moved behind its size.
    pub fn tag(&mut self, tag: u32, write: impl FnOnce(&mut Writer<'_>)) {
        self.unsigned_varint(tag);
        let start = self.out.len();
        write(&mut Writer {
            out: self.out,
            flexible: true,
        });
        let size = (self.out.len() - start) as u32;
        self.unsigned_varint(size);
        let rotate_by = unsigned_varint_bytes(size);
        self.out[start..].rotate_right(rotate_by);
    }

    /// Overwrite two bytes, for an error code that is known only after the fields that follow it.
    #[inline]
    pub fn patch_i16(&mut self, position: usize, value: i16) {
        self.out[position..position + 2].copy_from_slice(&value.to_be_bytes());
    }
}
