//! The hash with which Kafka's producers choose a partition for a key: 32-bit MurmurHash2 with Kafka's seed. All
//! clients that must choose the same partition as Java's default partitioner depend on it.

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

/// Return the hash of `data`, as Java's `int`.
#[must_use]
pub fn murmur2(data: &[u8]) -> i32 {
    let mut hash = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (place, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    (hash ^ (hash >> 15)) as i32
}

/// Return the partition of a key among `count` (at least 1), as Java's default partitioner chooses it.
#[must_use]
pub fn partition_of_key(key: &[u8], count: u32) -> u32 {
    (murmur2(key) & i32::MAX) as u32 % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javas_values() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn a_partition_is_one_of_those_there_are() {
        for length in 0..40 {
            assert!(partition_of_key(&vec![0xfe; length], 7) < 7);
        }
        assert_eq!(partition_of_key(b"anything", 0), 0);
    }
}
