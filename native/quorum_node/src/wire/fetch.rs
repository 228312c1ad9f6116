//! Fetch 13 of the metadata partition, in the layout of the KIP-516 text. Later Kafka versions add the fields of
//! KIP-595, KIP-853 and KIP-1166; here pybroker's own tagged fields carry that data.

use bytes::Bytes;
use pybroker_metadata_log::{Endpoint, decode_batches};
use pybroker_model::Uuid;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_quorum::{Answer, Ask, EpochEnd, Error, FetchResult, ReplicaKey, Request, Response};

use super::common::{
    Api, FETCH, Incoming, PartitionOutcome, Payload, Reply, ReplyTo, Sender, WireError,
    cluster_key, codes, malformed, read_partition, write_partition,
};

const CLUSTER_ID_TAG: u32 = 0;
/// Tag of the directory id in a partition of the request.
const DIRECTORY_TAG: u32 = 10_000;
const HIGH_WATERMARK_TAG: u32 = 10_001;
/// Tag of the snapshot id in a partition of the response.
const SNAPSHOT_TAG: u32 = 10_001;
/// Tag of the node endpoints in the response.
const ENDPOINTS_TAG: u32 = 10_000;

/// The value that means "no diverging end".
const NO_END: EpochEnd = EpochEnd {
    epoch: -1,
    offset: -1,
};

pub(super) fn encode_request(
    out: &mut Writer<'_>,
    request: &Request,
    sender: &Sender,
    from: EpochEnd,
    high_watermark: i64,
    wait_ms: u64,
) {
    out.i32(request.sender.id);
    out.i32(i32::try_from(wait_ms).unwrap_or(i32::MAX));
    out.i32(0);
    out.i32(sender.fetch_bytes_max);
    out.i8(0);
    out.i32(0);
    out.i32(-1);
    write_partition(out, request.topic_id);
    out.i32(request.epoch);
    out.i64(from.offset);
    out.i32(from.epoch);
    out.i64(-1);
    out.i32(sender.fetch_bytes_max);
    out.tag_count(2);
    out.tag(DIRECTORY_TAG, |out| out.uuid(request.sender.directory));
    out.tag(HIGH_WATERMARK_TAG, |out| out.i64(high_watermark));
    out.no_tags();
    out.array_len(0);
    out.string("");
    out.tag_count(1);
    out.tag(CLUSTER_ID_TAG, |out| {
        out.nullable_string(Some(&sender.cluster_id));
    });
}

pub(super) fn decode_request(
    reader: &mut Reader<'_>,
    api: Api,
    own: &Sender,
) -> Result<Incoming, DecodeError> {
    let id = reader.i32()?;
    let wait_ms = u64::try_from(reader.i32()?).unwrap_or(0);
    reader.i32()?;
    let bytes_max = reader.i32()?;
    reader.i8()?;
    reader.i32()?;
    reader.i32()?;
    let topic_id = read_partition(reader, true)?;
    let epoch = reader.i32()?;
    let offset = reader.i64()?;
    let from = EpochEnd {
        epoch: reader.i32()?,
        offset,
    };
    reader.i64()?;
    let partition_bytes_max = reader.i32()?;
    let (mut directory, mut high_watermark) = (Uuid::ZERO, i64::MAX);
    reader.tags(|tag, value| {
        match tag {
            DIRECTORY_TAG => directory = value.uuid()?,
            HIGH_WATERMARK_TAG => high_watermark = value.i64()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    reader.skip_tags(true)?;
    for _ in 0..reader.array_len(true, 18)? {
        reader.uuid()?;
        for _ in 0..reader.array_len(true, 4)? {
            reader.i32()?;
        }
        reader.skip_tags(true)?;
    }
    reader.string(true)?;
    let mut cluster_id = own.cluster_key;
    reader.tags(|tag, value| {
        if tag == CLUSTER_ID_TAG {
            cluster_id = cluster_key(value.nullable_string(true)?, own);
        }
        Ok(tag == CLUSTER_ID_TAG)
    })?;
    Ok(Incoming {
        request: Request {
            cluster_id,
            topic_id,
            epoch,
            sender: ReplicaKey { id, directory },
            ask: Ask::Fetch {
                from,
                high_watermark,
                wait_ms,
            },
        },
        reply: ReplyTo {
            api,
            topic_id,
            bytes_max: bytes_max.min(partition_bytes_max).max(0) as usize,
            snapshot: EpochEnd::default(),
            position: 0,
        },
        endpoints: Vec::new(),
    })
}

pub(super) fn encode_response(
    out: &mut Writer<'_>,
    response: &Response<Bytes>,
    to: &ReplyTo,
    payload: &Payload,
    endpoints: &[Endpoint],
) {
    let (error, partition_error) = codes(response.error);
    let (mut high_watermark, mut diverging, mut snapshot) = (-1, None, None);
    if let Answer::Fetch {
        high_watermark: leaders,
        fetched,
    } = &response.answer
    {
        high_watermark = *leaders;
        match fetched {
            FetchResult::Batches(_) => {}
            FetchResult::Diverging(end) => diverging = Some(*end),
            FetchResult::Snapshot(id) => snapshot = Some(*id),
        }
    }
    out.i32(0);
    out.i16(error);
    out.i32(0);
    write_partition(out, to.topic_id);
    out.i16(partition_error);
    out.i64(high_watermark);
    out.i64(-1);
    out.i64(-1);
    let diverging = diverging.unwrap_or(NO_END);
    out.i32(diverging.epoch);
    out.i64(diverging.offset);
    out.no_tags();
    out.i32(response.leader.unwrap_or(-1));
    out.i32(response.epoch);
    out.no_tags();
    out.nullable_len(None);
    out.i32(-1);
    out.nullable_bytes(Some(&payload.bytes));
    out.tag_count(u32::from(snapshot.is_some()));
    if let Some(id) = snapshot {
        out.tag(SNAPSHOT_TAG, |out| {
            out.i64(id.offset);
            out.i32(id.epoch);
            out.no_tags();
        });
    }
    out.no_tags();
    out.tag_count(u32::from(!endpoints.is_empty()));
    if !endpoints.is_empty() {
        out.tag(ENDPOINTS_TAG, |out| {
            out.array_len(endpoints.len());
            for endpoint in endpoints {
                out.i32(endpoint.node);
                out.string(&endpoint.host);
                out.i32(i32::from(endpoint.port));
                out.nullable_string(None);
                out.no_tags();
            }
        });
    }
}

/// The parts of a response.
struct Parts {
    outcome: PartitionOutcome,
    high_watermark: i64,
    diverging: Option<EpochEnd>,
    snapshot: Option<EpochEnd>,
    records: Bytes,
    endpoints: Vec<Endpoint>,
}

pub(super) fn decode_response(reader: &mut Reader<'_>, body: &Bytes) -> Result<Reply, WireError> {
    let parts = read_parts(reader, body).map_err(malformed(FETCH))?;
    let error = parts.outcome.error()?;
    let fetched = match (parts.diverging, parts.snapshot) {
        (Some(end), _) => FetchResult::Diverging(end),
        (_, Some(id)) => FetchResult::Snapshot(id),
        _ => FetchResult::Batches(decode_batches(&parts.records)?),
    };
    let answer = match error {
        Error::None => Answer::Fetch {
            high_watermark: parts.high_watermark,
            fetched,
        },
        _ => Answer::Empty,
    };
    parts.outcome.reply(answer, parts.endpoints)
}

fn read_parts(reader: &mut Reader<'_>, body: &Bytes) -> Result<Parts, DecodeError> {
    reader.i32()?;
    let error = reader.i16()?;
    reader.i32()?;
    read_partition(reader, true)?;
    let errors = (error, reader.i16()?);
    let high_watermark = reader.i64()?;
    reader.i64()?;
    reader.i64()?;
    let epoch = reader.i32()?;
    let offset = reader.i64()?;
    reader.skip_tags(true)?;
    let end = EpochEnd { epoch, offset };
    let diverging = (end != NO_END).then_some(end);
    let leader = (reader.i32()?, reader.i32()?);
    reader.skip_tags(true)?;
    for _ in 0..reader.nullable_array(true, 16)?.unwrap_or(0) {
        reader.i64()?;
        reader.i64()?;
        reader.skip_tags(true)?;
    }
    reader.i32()?;
    let records = reader
        .nullable_bytes(true)?
        .map_or_else(Bytes::new, |records| body.slice_ref(records));
    let mut snapshot = None;
    reader.tags(|tag, value| {
        if tag != SNAPSHOT_TAG {
            return Ok(false);
        }
        let offset = value.i64()?;
        let epoch = value.i32()?;
        snapshot = Some(EpochEnd { epoch, offset });
        value.skip_tags(true)?;
        Ok(true)
    })?;
    reader.skip_tags(true)?;
    let mut endpoints = Vec::new();
    reader.tags(|tag, value| {
        if tag != ENDPOINTS_TAG {
            return Ok(false);
        }
        for _ in 0..value.array_len(true, 11)? {
            endpoints.push(Endpoint {
                node: value.i32()?,
                listener: String::new(),
                host: value.string(true)?.to_owned(),
                port: u16::try_from(value.i32()?).unwrap_or_default(),
            });
            value.nullable_string(true)?;
            value.skip_tags(true)?;
        }
        Ok(true)
    })?;
    Ok(Parts {
        outcome: PartitionOutcome { errors, leader },
        high_watermark,
        diverging,
        snapshot,
        records,
        endpoints,
    })
}
