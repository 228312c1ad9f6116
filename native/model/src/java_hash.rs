//! Java's `String.hashCode`. Kafka uses it to choose the coordinator's partition for a group id or a transactional id,
//! and clients and tools depend on the same result.

/// Return the hash, as Java's `int`, of a text in big-endian UTF-16. If the number of bytes is odd, the last byte is
/// ignored.
#[must_use]
pub fn java_hash(utf_16: &[u8]) -> i32 {
    let (units, _) = utf_16.as_chunks::<2>();
    units.iter().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31)
            .wrapping_add(u16::from_be_bytes(*unit).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javas_values() {
        for (text, hash) in [
            ("", 0),
            ("my-group", -1_906_497_762),
            ("polygenelubricants", i32::MIN),
        ] {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
            assert_eq!(java_hash(&bytes), hash, "{text}");
        }
        assert_eq!(java_hash(&[0, b'a', 0]), i32::from(b'a'));
    }
}
