//! Zig-zag variable-length integers, as records use them.

/// Largest size of a 32-bit varint in bytes.
pub(crate) const VARINT_BYTES_MAX: usize = 5;
/// Largest size of a 64-bit varint in bytes.
pub(crate) const VARLONG_BYTES_MAX: usize = 10;

/// Read a zig-zag varint from the front of `bytes`; return the value and its size. `None` if the bytes end too early or
/// the value does not fit 32 bits.
#[inline]
#[must_use]
pub fn read_varint(bytes: &[u8]) -> Option<(i32, usize)> {
    // Nearly all lengths and deltas take one or two bytes; this is the inner loop of validation.
    match *bytes {
        [a, ..] if a < 0x80 => Some((unzigzag32(u32::from(a)), 1)),
        [a, b, ..] if b < 0x80 => Some((unzigzag32(u32::from(a & 0x7f) | u32::from(b) << 7), 2)),
        _ => read_long_varint(bytes),
    }
}

#[cold]
fn read_long_varint(bytes: &[u8]) -> Option<(i32, usize)> {
    let mut value = 0u32;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        if index == VARINT_BYTES_MAX - 1 && byte > 0x0f {
            return None;
        }
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((unzigzag32(value), index + 1));
        }
    }
    None
}

/// Read a zig-zag varlong from the front of `bytes`; return the value and its size. `None` if the bytes end too early
/// or the value does not fit 64 bits.
#[inline]
#[must_use]
pub fn read_varlong(bytes: &[u8]) -> Option<(i64, usize)> {
    // Nearly all lengths and deltas take one or two bytes; this is the inner loop of validation.
    match *bytes {
        [a, ..] if a < 0x80 => Some((unzigzag64(u64::from(a)), 1)),
        [a, b, ..] if b < 0x80 => Some((unzigzag64(u64::from(a & 0x7f) | u64::from(b) << 7), 2)),
        _ => read_long_varlong(bytes),
    }
}

#[cold]
fn read_long_varlong(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(VARLONG_BYTES_MAX).enumerate() {
        if index == VARLONG_BYTES_MAX - 1 && byte > 0x01 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((unzigzag64(value), index + 1));
        }
    }
    None
}

/// Append `value` as a zig-zag varint.
#[inline]
pub fn write_varint(out: &mut Vec<u8>, value: i32) {
    write_unsigned(out, u64::from(zigzag32(value)));
}

/// Append `value` as a zig-zag varlong.
#[inline]
pub fn write_varlong(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, zigzag64(value));
}

/// Return the number of bytes that [`write_varint`] appends.
#[inline]
#[must_use]
pub fn varint_size(value: i32) -> usize {
    unsigned_size(u64::from(zigzag32(value)))
}

/// Return the number of bytes that [`write_varlong`] appends.
#[inline]
#[must_use]
pub fn varlong_size(value: i64) -> usize {
    unsigned_size(zigzag64(value))
}

#[inline]
fn write_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn unsigned_size(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

const fn zigzag32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

const fn zigzag64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) const fn unzigzag32(value: u32) -> i32 {
    ((value >> 1) as i32) ^ -((value & 1) as i32)
}

pub(crate) const fn unzigzag64(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        for value in [0, 1, -1, 63, 64, -64, -65, i32::MAX, i32::MIN] {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            assert_eq!(out.len(), varint_size(value));
            assert_eq!(read_varint(&out), Some((value, out.len())));
            assert_eq!(read_varint(&out[..out.len() - 1]), None);
        }
        assert_eq!(read_varint(&[0xff; 5]), None);
        assert_eq!(read_varlong(&[0xff; 10]), None);
        assert_eq!(read_varint(&[0x80, 0x80, 0x80, 0x80, 0x10]), None);
    }

    proptest! {
        #[test]
        fn varlong_round_trip(value: i64) {
            let mut out = Vec::new();
            write_varlong(&mut out, value);
            prop_assert_eq!(out.len(), varlong_size(value));
            prop_assert_eq!(read_varlong(&out), Some((value, out.len())));
        }
    }
}
