//! Aborted transactions of one segment, in Kafka's `.txnindex` format, for readers with isolation level read_committed.
//!
//! ```text
//! { version i16 = 0 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64 }
//! ```

/// Size of an entry in bytes.
pub(crate) const ENTRY_BYTES: usize = 34;

/// An aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The transaction's producer id.
    pub producer_id: i64,
    /// First offset of the transaction in this partition.
    pub first_offset: i64,
    /// Offset of the abort marker.
    pub last_offset: i64,
    /// Last stable offset after the marker. A reader that needs the aborted transactions below some offset can stop at
    /// the first entry whose value is not below that offset.
    pub last_stable_offset: i64,
}

impl AbortedTransaction {
    pub(crate) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[2..10].copy_from_slice(&self.producer_id.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.first_offset.to_be_bytes());
        bytes[18..26].copy_from_slice(&self.last_offset.to_be_bytes());
        bytes[26..34].copy_from_slice(&self.last_stable_offset.to_be_bytes());
        bytes
    }
}

/// Parse all entries; `None` if the bytes are not a transaction index.
pub(crate) fn parse(content: &[u8]) -> Option<Vec<AbortedTransaction>> {
    let (entries, rest) = content.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return None;
    }
    let field = |entry: &[u8; ENTRY_BYTES], at: usize| {
        i64::from_be_bytes(entry[at..at + 8].try_into().unwrap_or_default())
    };
    let mut parsed: Vec<AbortedTransaction> = Vec::with_capacity(entries.len());
    for entry in entries {
        let transaction = AbortedTransaction {
            producer_id: field(entry, 2),
            first_offset: field(entry, 10),
            last_offset: field(entry, 18),
            last_stable_offset: field(entry, 26),
        };
        let ascending = parsed
            .last()
            .is_none_or(|last| last.last_offset < transaction.last_offset);
        let sane =
            transaction.first_offset >= 0 && transaction.first_offset <= transaction.last_offset;
        if entry[..2] != [0, 0] || !ascending || !sane {
            return None;
        }
        parsed.push(transaction);
    }
    Some(parsed)
}
