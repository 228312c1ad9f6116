//! Types that all other crates share: topic ids, record batches and the encodings inside a batch.
//!
//! No IO, no clock, no threads, no protocol framing. All parsers here read untrusted bytes: they check lengths before
//! using them, and never panic.

mod batches;
mod builder;
mod compression;
mod crc;
mod error;
mod ids;
mod internal_topics;
mod java_hash;
mod murmur2;
mod record;
mod record_batch;
mod stamp;
mod uuid;
mod validate;
mod varint;
mod walk;

pub use batches::Batches;
pub use builder::{BatchBuilder, ControlType, end_transaction_marker, end_transaction_marker_of};
pub use compression::{Codec, DECOMPRESSED_BYTES_MAX, Decoder, compress, decompress};
pub use crc::crc32c;
pub use error::{BatchError, REJECTED_RECORDS_MAX, RecordFault, RejectedRecord};
pub use ids::{BuildIdHasher, IdMap, TopicId, TopicIdPartition};
pub use internal_topics::{INTERNAL_TOPICS, is_internal};
pub use java_hash::java_hash;
pub use murmur2::{murmur2, partition_of_key};
pub use record::{Header, Headers, RecordRef, Records, decompressed_records};
pub use record_batch::{
    BATCH_LENGTH_END, BatchHeader, HEADER_BYTES, MAGIC_V2, NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, TimestampType,
    increment_sequence,
};
pub use stamp::{recompute_crc, set_base_offset, set_leader_epoch, set_timestamp_type_and_max};
pub use uuid::{ParseUuidError, Uuid};
pub use validate::{
    CompressionType, ProduceRules, ValidBatches, validate_produce, validate_within,
};
pub use varint::{
    read_varint, read_varlong, varint_size, varlong_size, write_varint, write_varlong,
};
pub use walk::{ExpansionBudget, expansion_max};
