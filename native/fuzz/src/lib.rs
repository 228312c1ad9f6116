//! Fuzz targets for bytes from outside: one function each, which panics if the product breaks an invariant.
//!
//! Behavior
//!
//! - `seeds/<target>/` contains inputs. `cargo test -p pybroker-fuzz` runs each of them, and mutations of them, on
//!   stable Rust. When a fuzzer finds a failing input, add it there, named after the fault.
//! - `make fuzz TARGET=wire SECONDS=3600` lets libFuzzer search for new ones (nightly Rust and cargo-fuzz).
//!
//! The first bytes of an input select the exercised code: the index of the message, its version, the codec.

mod log_files;

use pybroker_keystore::{Kind, Store, identity, kind_of, trusted};
use pybroker_model::{
    BatchHeader, Codec, CompressionType, HEADER_BYTES, ProduceRules, Records, TimestampType,
    compress, decompress, decompressed_records, recompute_crc, validate_produce,
};
use pybroker_protocol::codec::{Message, Registry, check, decode_value, encode_value};
use pybroker_protocol::hot::{
    api_versions::ApiVersionsRequest, fetch_request::FetchRequest, fetch_response::FetchResponse,
    list_offsets::ListOffsetsRequest, metadata::MetadataRequest,
    offset_commit::OffsetCommitRequest, offset_for_leader_epoch::OffsetForLeaderEpochRequest,
    produce_request::ProduceRequest,
};
use pybroker_protocol::primitives::ELEMENTS_MAX;

pub use log_files::log_files;

const EXPANDED_BYTES_MAX: usize = 1 << 20;

/// Return all messages of both registries, in a stable order.
fn messages() -> impl Iterator<Item = &'static Message> {
    let registries = [Registry::Client, Registry::InterBroker];
    registries.into_iter().flat_map(|registry| {
        registry
            .names()
            .filter_map(move |name| registry.named(name))
    })
}

/// Fuzz the schema interpreter: it rejects the bytes, or decodes a value that survives encoding and decoding.
///
/// # Panics
///
/// If a value changes in the codec, or [`check`] and decoding disagree.
pub fn wire(data: &[u8]) {
    let Some((&[high, low, version], body)) = data.split_first_chunk::<3>() else {
        return;
    };
    let count = messages().count();
    let chosen = usize::from(u16::from_be_bytes([high, low])) % count;
    let Some(message) = messages().nth(chosen) else {
        return;
    };
    let versions = message.versions;
    let version = versions.first
        + i16::from(version) % (versions.last.saturating_sub(versions.first).max(0) + 1);
    let Some(layout) = message.layout(version) else {
        return;
    };
    let checked = check(layout, body, ELEMENTS_MAX);
    let Some(decoded) = decode_value(message, version, body, ELEMENTS_MAX) else {
        return;
    };
    assert_eq!(
        checked.is_ok(),
        decoded.is_ok(),
        "{} version {version}: check and decode disagree",
        message.name()
    );
    let Ok(value) = decoded else { return };
    let Ok(encoded) = encode_value(message, version, &value) else {
        return;
    };
    let again = decode_value(message, version, &encoded, ELEMENTS_MAX);
    // NaN is not equal to itself, so compare the bytes of a second round trip.
    let Some(Ok(again)) = again else {
        panic!(
            "{} version {version}: what was encoded is refused",
            message.name()
        );
    };
    assert_eq!(
        encode_value(message, version, &again).ok(),
        Some(encoded),
        "{} version {version}: encoding is not stable",
        message.name()
    );
}

/// Fuzz the hand-written codecs of frequent requests: arbitrary bytes never cause a panic.
pub fn hot_wire(data: &[u8]) {
    let Some((&[chosen, version], body)) = data.split_first_chunk::<2>() else {
        return;
    };
    let version = i16::from(version % 20);
    match chosen % 8 {
        0 => drop(ApiVersionsRequest::decode(body, version)),
        1 => drop(FetchRequest::default().decode(body, version)),
        2 => drop(FetchResponse::decode(body, version)),
        3 => drop(ListOffsetsRequest::decode(body, version)),
        4 => drop(MetadataRequest::decode(body, version)),
        5 => drop(OffsetCommitRequest::decode(body, version)),
        6 => drop(OffsetForLeaderEpochRequest::decode(body, version)),
        _ => drop(ProduceRequest::default().decode(body, version)),
    }
}

/// Fuzz Produce validation with a correct length and checksum: accepted batches are readable to their end.
///
/// # Panics
///
/// If an accepted batch is unreadable.
pub fn produce(data: &[u8]) {
    let Some((&[rules, codec], batch)) = data.split_first_chunk::<2>() else {
        return;
    };
    let mut batch = batch.to_vec();
    if batch.len() >= HEADER_BYTES {
        // Set the length, the format and the checksum, because a fuzzer would not find valid ones.
        let length = i32::try_from(batch.len() - 12).unwrap_or(i32::MAX);
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        batch[16] = 2;
        recompute_crc(&mut batch);
    }
    let rules = ProduceRules {
        max_message_bytes: 1 << 20,
        compacted: rules & 1 != 0,
        timestamp_type: if rules & 2 == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        },
        before_max_ms: i64::MAX,
        after_max_ms: if rules & 4 == 0 { i64::MAX } else { 3_600_000 },
        compression_type: match codec_of(codec) {
            Codec::None => CompressionType::Producer,
            target => CompressionType::Recompress(target, None),
        },
        zstd_allowed: rules & 8 == 0,
        now_ms: 1_800_000_000_000,
    };
    if let Ok(valid) = validate_produce(&mut batch, &rules) {
        walk_all(valid.as_bytes());
    }
}

fn walk_all(batch: &[u8]) {
    let header = BatchHeader::parse(batch).expect("an accepted batch has a header");
    let mut scratch = Vec::new();
    let records = decompressed_records(&header, batch, &mut scratch)
        .expect("an accepted batch can be decompressed");
    let mut count = 0;
    for record in Records::new(&header, records) {
        let record = record.expect("an accepted batch has whole records");
        record.headers.for_each(drop);
        count += 1;
    }
    assert_eq!(count, header.record_count, "records of an accepted batch");
}

fn codec_of(byte: u8) -> Codec {
    match byte % 5 {
        0 => Codec::None,
        1 => Codec::Gzip,
        2 => Codec::Snappy,
        3 => Codec::Lz4,
        _ => Codec::Zstd,
    }
}

/// Fuzz each codec: hostile bytes are rejected before they exceed the limit of decompressed bytes, and valid ones
/// survive a round trip.
///
/// # Panics
///
/// If the limit is exceeded, or compressing and decompressing changes bytes.
pub fn compression(data: &[u8]) {
    let Some((&codec, body)) = data.split_first() else {
        return;
    };
    let codec = codec_of(codec);
    let mut out = Vec::new();
    if decompress(codec, body, &mut out, EXPANDED_BYTES_MAX).is_ok() {
        assert!(out.len() <= EXPANDED_BYTES_MAX, "more bytes than allowed");
    }
    let mut packed = Vec::new();
    if compress(codec, None, body, &mut packed).is_ok() {
        let mut back = Vec::new();
        decompress(codec, &packed, &mut back, body.len()).expect("its own output");
        assert_eq!(back, body);
    }
}

/// Fuzz keystores and truststores: they are read, or rejected with an error.
pub fn keystores(data: &[u8]) {
    let Some((&passwords, content)) = data.split_first() else {
        return;
    };
    let password = (passwords & 1 != 0).then_some("secret");
    let key_password = (passwords & 2 != 0).then_some("secret");
    for kind in [kind_of(content), Kind::Pem, Kind::Java] {
        let store = Store {
            prefix: "ssl.keystore.",
            place: "ssl.keystore.location=/k",
            kind,
            content,
            password,
        };
        drop(identity(&store, key_password));
        drop(trusted(&store));
    }
}
