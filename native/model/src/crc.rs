//! CRC-32C (Castagnoli), the checksum of record batches and producer snapshots.

/// Return the CRC-32C of `data`, as Kafka stores it in batch headers and snapshot files.
///
/// The instruction set is chosen at run time (about 70 GB/s with AVX-512), so checking a batch costs far less than
/// receiving it.
#[must_use]
pub fn crc32c(data: &[u8]) -> u32 {
    // The low half of the generic 64-bit result is the 32-bit checksum.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, data) as u32
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn known_values() {
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0u8; 32]), 0x8a91_36aa);
    }
}
