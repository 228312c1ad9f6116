//! The requests of a sink: Produce or IngestAppend of one batch, and InitProducerId before them.

use std::ops::RangeInclusive;
use std::time::Duration;

use pybroker_client::{Client, Connection, Error, InFlight, Node, Result};
use pybroker_model::Uuid;
use pybroker_protocol::hot::produce_request;
use pybroker_protocol::hot::produce_response::ProduceResponse;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_protocol::{ApiKey, ErrorCode};

use super::delivery::BatchInFlight;
use super::{Target, Transaction};

/// Supported versions of Produce. Version 3 introduces message format 2; from version 13 topics are named by id
/// (KIP-516).
const PRODUCE: RangeInclusive<i16> = 3..=13;
/// Last version of Produce for transactions version 1, in which partitions are added explicitly (KIP-890).
const PRODUCE_VERSION_1: i16 = 11;
/// Supported versions of InitProducerId. Version 2 is the first flexible one.
const INIT_PRODUCER_ID: RangeInclusive<i16> = 0..=4;
const INIT_PRODUCER_ID_FLEXIBLE: i16 = 2;
/// Supported versions of DescribeConfigs. Version 4 is the first flexible one.
const DESCRIBE_CONFIGS: RangeInclusive<i16> = 1..=4;
const DESCRIBE_CONFIGS_FLEXIBLE: i16 = 4;
const TOPIC_RESOURCE: i8 = 2;
const MAX_MESSAGE_BYTES: &str = "max.message.bytes";
/// Bytes that a batch leaves free below `max.message.bytes`, because compression makes incompressible data slightly
/// larger.
const BATCH_MARGIN: usize = 512;
/// Position of a batch's own checksum.
const BATCH_CRC: RangeInclusive<usize> = 17..=20;

/// The only version of IngestAppend, flexible.
const INGEST_APPEND: RangeInclusive<i16> = 0..=0;

/// Identity of staged batches: one attempt of a Spark task in an ingest (docs/staged-ingest.md).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagingTarget {
    /// The ingest, or the stream.
    pub ingest_id: String,
    /// Number of the stream's batch, or −1 if there is no stream.
    pub batch_id: i64,
    /// Epoch from IngestBegin.
    pub epoch: i32,
    /// Spark's partition, which orders the writers.
    pub writer: i32,
    /// Number of the attempt, unique for this writer.
    pub attempt: i64,
}

/// Fields at the start of a Produce request.
pub(super) struct ProduceHead<'a> {
    pub(super) transaction: Option<&'a Transaction>,
    pub(super) acks: i16,
    pub(super) timeout: Duration,
}

/// A broker's response for one batch.
pub(super) struct Answer {
    pub(super) code: ErrorCode,
    pub(super) base_offset: i64,
    pub(super) message: Option<String>,
    /// Throttle time, in milliseconds.
    pub(super) throttle_ms: i32,
}

/// Return the checksum stored in a batch.
pub(super) fn crc_field(batch: &[u8]) -> &[u8] {
    batch.get(BATCH_CRC).unwrap_or_default()
}

pub(super) fn send(
    connection: &mut Connection,
    target: &Target,
    staging: Option<&StagingTarget>,
    settings: &ProduceHead<'_>,
    sent: &BatchInFlight,
) -> Result<InFlight> {
    let (key, version, flexible, head) = match staging {
        Some(staging) => append_head(connection, target, staging, sent)?,
        None => produce_head(connection, target, settings, sent)?,
    };
    // The empty sections of tagged fields of the partition, of the topic (in Produce) and of the request.
    let tail: &[u8] = match (flexible, staging) {
        (false, _) => &[],
        (true, None) => &[0; 3],
        (true, Some(_)) => &[0; 2],
    };
    connection.send(key as i16, version, &[&head, &sent.batch.bytes, tail])
}

type Head = (ApiKey, i16, bool, Vec<u8>);

fn produce_head(
    connection: &Connection,
    target: &Target,
    settings: &ProduceHead<'_>,
    sent: &BatchInFlight,
) -> Result<Head> {
    let mut version = connection.version_of(ApiKey::Produce, PRODUCE)?;
    if settings.transaction.is_some() {
        version = version.min(PRODUCE_VERSION_1);
    }
    if target.id == Uuid::ZERO {
        version = version.min(produce_request::BY_ID - 1);
    }
    let flexible = version >= produce_request::FLEXIBLE;
    let mut head = Vec::with_capacity(64);
    let mut writer = Writer::new(&mut head, flexible);
    writer.nullable_string(settings.transaction.map(|one| one.id.as_str()));
    writer.i16(settings.acks);
    writer.i32(settings.timeout.as_millis() as i32);
    writer.array_len(1);
    if version >= produce_request::BY_ID {
        writer.uuid(target.id);
    } else {
        writer.string(&target.name);
    }
    writer.array_len(1);
    writer.i32(sent.partition);
    writer.nullable_len(Some(sent.batch.bytes.len()));
    Ok((ApiKey::Produce, version, flexible, head))
}

fn append_head(
    connection: &Connection,
    target: &Target,
    staging: &StagingTarget,
    sent: &BatchInFlight,
) -> Result<Head> {
    let version = connection.version_of(ApiKey::IngestAppend, INGEST_APPEND)?;
    let mut head = Vec::with_capacity(96);
    let mut writer = Writer::new(&mut head, true);
    writer.uuid(target.id);
    writer.string(&staging.ingest_id);
    writer.i64(staging.batch_id);
    writer.i32(staging.epoch);
    writer.i32(staging.writer);
    writer.i64(staging.attempt);
    writer.array_len(1);
    writer.i32(sent.partition);
    writer.i64(sent.sequence);
    writer.nullable_len(Some(sent.batch.bytes.len()));
    Ok((ApiKey::IngestAppend, version, true, head))
}

pub(super) fn receive(
    connection: &mut Connection,
    staged: bool,
    request: InFlight,
) -> Result<Answer> {
    let body = connection.receive(request)?;
    let answer = if staged {
        read_append(&body)
    } else {
        read_produce(&body, request.version())
    };
    answer.map_err(|error| Error::decode(connection.address(), error))
}

fn read_produce(body: &[u8], version: i16) -> core::result::Result<Answer, DecodeError> {
    let response = ProduceResponse::decode(body, version)?;
    let partition = response
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .next()
        .ok_or(DecodeError::UnexpectedNull)?;
    Ok(Answer {
        code: ErrorCode(partition.error_code),
        base_offset: partition.base_offset,
        message: partition.error_message.map(str::to_owned),
        throttle_ms: response.throttle_time_ms,
    })
}

fn read_append(body: &[u8]) -> core::result::Result<Answer, DecodeError> {
    let mut reader = Reader::new(body);
    let throttle_ms = reader.i32()?;
    let code = reader.i16()?;
    let message = reader.nullable_string(true)?.map(str::to_owned);
    let mut answer = Answer {
        code: ErrorCode(code),
        base_offset: -1,
        message,
        throttle_ms,
    };
    let partitions = reader.array_len(true, 8)?;
    if code == 0 && partitions > 0 {
        reader.i32()?;
        answer.code = ErrorCode(reader.i16()?);
        answer.message = reader.nullable_string(true)?.map(str::to_owned);
    }
    Ok(answer)
}

/// Return the topic's maximum batch size. If the broker does not return it, return a very large number.
pub(super) fn batch_bytes_max(client: &mut Client, topic: &str) -> Result<usize> {
    let bytes = client.patiently(|client| try_max_message_bytes(client, topic))?;
    Ok(bytes.map_or(usize::MAX, |bytes| {
        bytes.saturating_sub(BATCH_MARGIN).max(1)
    }))
}

fn try_max_message_bytes(client: &mut Client, topic: &str) -> Result<Option<usize>> {
    let key = ApiKey::DescribeConfigs as i16;
    let connection = client.connection(Node::Any)?;
    let Some(version) = connection.version(key, DESCRIBE_CONFIGS) else {
        return Ok(None);
    };
    let broker = connection.address().to_owned();
    let flexible = version >= DESCRIBE_CONFIGS_FLEXIBLE;
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body, flexible);
    writer.array_len(1);
    writer.i8(TOPIC_RESOURCE);
    writer.string(topic);
    writer.array_len(1);
    writer.string(MAX_MESSAGE_BYTES);
    writer.no_tags();
    // Do not request synonyms and documentation.
    writer.bool(false);
    if version >= 3 {
        writer.bool(false);
    }
    writer.no_tags();
    let answer = client.call(Node::Any, key, version, &body)?;
    let read = || -> core::result::Result<(i16, Option<usize>), DecodeError> {
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        if reader.array_len(flexible, 8)? == 0 {
            return Ok((0, None));
        }
        let code = reader.i16()?;
        reader.nullable_string(flexible)?;
        reader.i8()?;
        reader.string(flexible)?;
        if reader.array_len(flexible, 4)? == 0 {
            return Ok((code, None));
        }
        // Only one setting was requested; the bytes after its value are not needed.
        let asked = reader.string(flexible)? == MAX_MESSAGE_BYTES;
        let value = reader.nullable_string(flexible)?.filter(|_| asked);
        Ok((code, value.and_then(|value| value.parse().ok())))
    };
    match read().map_err(|error| Error::decode(&broker, error))? {
        (code, _) if ErrorCode(code).is_retriable() => Err(Error::refused(
            ErrorCode(code),
            format!("{MAX_MESSAGE_BYTES} of topic {topic}"),
            None,
        )),
        // A client with permission to write may lack permission to describe settings.
        (_, bytes) => Ok(bytes),
    }
}

/// Request a producer id and epoch for an idempotent producer (KIP-98).
pub(super) fn init_producer_id(client: &mut Client) -> Result<(i64, i16)> {
    client.patiently(try_init_producer_id)
}

fn try_init_producer_id(client: &mut Client) -> Result<(i64, i16)> {
    let connection = client.connection(Node::Any)?;
    let version = connection.version_of(ApiKey::InitProducerId, INIT_PRODUCER_ID)?;
    let broker = connection.address().to_owned();
    let flexible = version >= INIT_PRODUCER_ID_FLEXIBLE;
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body, flexible);
    writer.nullable_string(None);
    writer.i32(i32::MAX);
    if version >= 3 {
        writer.i64(-1);
        writer.i16(-1);
    }
    writer.no_tags();
    let key = ApiKey::InitProducerId as i16;
    let answer = client.call(Node::Any, key, version, &body)?;
    let read = || -> core::result::Result<(i16, i64, i16), DecodeError> {
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        Ok((reader.i16()?, reader.i64()?, reader.i16()?))
    };
    match read().map_err(|error| Error::decode(&broker, error))? {
        (0, id, epoch) => Ok((id, epoch)),
        (code, ..) => Err(Error::refused(ErrorCode(code), "InitProducerId", None)),
    }
}
