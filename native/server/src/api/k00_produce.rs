//! Produce, versions 3–13: by name to v12, by topic id from v13. v0–2 are answered UNSUPPORTED_VERSION (R8).
//!
//! Each partition: found in one snapshot of the map, its batch checked outside of any lock, appended. With acks=all
//! the reply is written at once, except for the error codes: they are patched if a commit fails or comes too late
//! (`timeout_ms` → REQUEST_TIMED_OUT, with the offsets that were assigned, as Kafka answers).
//!
//! Refused: transactional producers (until there is a coordinator: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which no
//! client retries, R20), acks other than −1, 0, 1, internal topics (as Kafka, unless the client calls itself
//! `__admin_client`). With acks=0 a failure closes the connection: there is no other way to say so.

mod hand_over;
mod old_versions;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pybroker_model::{BatchError, validate_produce};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::produce_request::{BY_ID, ProduceRequest, ProduceTopic, VERSIONS};
use pybroker_protocol::hot::produce_response::{
    PartitionProduceResponse, ProduceResponseWriter, RecordError,
};
use pybroker_protocol::primitives::Writer;
use pybroker_replica::{AppendInfo, Commit, PartitionError};

pub(crate) use hand_over::{Appended, PendingAppend};
use hand_over::{append_elsewhere, slow_dir};
use old_versions::run_unsupported;

use super::partitions::{ResolvedTopic, endpoints, points_elsewhere};
use super::{Answer, Call};
use crate::access::Access;
use crate::authorizer::Operation;
use crate::close::CloseReason;
use crate::error_codes::{Naming, of_batch, of_partition};
use crate::metadata_view::MetadataView;
use crate::metrics::ThreadMetrics;
use crate::reply::ReplyFrame;
use crate::shared::{ConnectionInfo, Shared};
use crate::slots::Slot;

/// First version that may carry zstd (KIP-110).
const ZSTD: i16 = 7;
/// Topics that only the broker writes to.
const INTERNAL_TOPICS: [&str; 3] = [
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
];
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// Appended, waiting for its commits.
pub(crate) struct PendingProduce {
    /// The whole reply frame.
    reply: Vec<u8>,
    /// What is not committed yet, last partition first.
    waits: Vec<Wait>,
    naming: Naming,
    pub(crate) deadline: Instant,
    pub(crate) received: Instant,
}

struct Wait {
    commit: Commit,
    /// Where the partition's error code stands in the reply.
    error_position: usize,
}

/// A refused partition.
struct Refusal {
    error: ErrorCode,
    message: Option<String>,
    /// Index in the batch of the record to blame.
    record: Option<i32>,
}

impl Refusal {
    fn code(error: ErrorCode) -> Self {
        Refusal {
            error,
            message: None,
            record: None,
        }
    }

    fn batch(error: &BatchError) -> Self {
        let record = match error {
            BatchError::InvalidRecord { index, .. } => *index,
            BatchError::InvalidTimestamp { index, .. } => Some(*index),
            _ => None,
        };
        Refusal {
            error: of_batch(error),
            message: Some(error.to_string()),
            record,
        }
    }

    fn partition(error: &PartitionError, naming: Naming) -> Self {
        match error {
            PartitionError::Batch(error) => Refusal::batch(error),
            other => Refusal {
                error: of_partition(other, naming),
                message: Some(other.to_string()),
                record: None,
            },
        }
    }
}

/// Appends what the request carries. Batches are stamped in place, hence the mutable body.
pub(crate) fn run(
    call: &mut Call<'_, '_>,
    body: &mut [u8],
    out: &mut Vec<u8>,
) -> Result<Answer, CloseReason> {
    if !VERSIONS.contains(&call.version) {
        return run_unsupported(call, body, out);
    }
    // Out of the thread's state, so that both can be borrowed; it goes back with its capacity.
    let mut request = core::mem::take(&mut call.thread.produce);
    let answer = match request.decode(body, call.version) {
        Err(error) => Err(call.bad_request(error)),
        Ok(()) => match slow_dir(call, &request, body) {
            Some(dir) => Ok(append_elsewhere(call, dir, body)),
            None => {
                let production = Production::of(call);
                let mut tally = Tally::default();
                let done = append_all(&production, &request, body, out, &mut tally);
                tally.note(&call.thread.metrics);
                done.map(|done| match done {
                    Done::Written => Answer::Written,
                    Done::Silent => Answer::Silent,
                    Done::Waits(pending) => Answer::Later(Slot::Produce(pending)),
                })
            }
        },
    };
    call.thread.produce = request;
    answer
}

/// A produce request apart from its body: what appending needs, on whichever thread.
struct Production<'a> {
    shared: &'a Shared,
    connection: &'a ConnectionInfo,
    client_id: Option<&'a str>,
    version: i16,
    correlation_id: i32,
    flexible: bool,
    received: Instant,
    now_ms: i64,
}

impl<'a> Production<'a> {
    fn of(call: &Call<'a, '_>) -> Self {
        Production {
            shared: call.shared,
            connection: call.connection,
            client_id: call.client_id,
            version: call.version,
            correlation_id: call.correlation_id,
            flexible: call.flexible,
            received: call.received,
            now_ms: call.now_ms,
        }
    }
}

/// What the metrics of the connection's thread are to be told.
#[derive(Default)]
struct Tally {
    bytes: u64,
    errors: Vec<i16>,
}

impl Tally {
    fn note(&self, metrics: &ThreadMetrics) {
        metrics.produced_bytes.add(self.bytes);
        for error in &self.errors {
            metrics.error(*error);
        }
    }
}

/// What became of the appends of a request.
enum Done {
    /// The whole reply frame is in the output.
    Written,
    /// There is no reply (acks=0).
    Silent,
    /// Appended; the reply comes with the commit.
    Waits(Box<PendingProduce>),
}

fn append_all(
    call: &Production<'_>,
    request: &ProduceRequest,
    body: &mut [u8],
    out: &mut Vec<u8>,
    tally: &mut Tally,
) -> Result<Done, CloseReason> {
    let map = call.shared.replicas.snapshot();
    let view = call.shared.metadata.load();
    let access = Access::new(call.shared, call.connection);
    let refused_whole = refuse_whole(request.transactional_id.is_some(), request.acks);
    let naming = if call.version >= BY_ID {
        Naming::Id
    } else {
        Naming::Name
    };
    let mut waits: Vec<Wait> = Vec::new();
    let mut leaders: Vec<i32> = Vec::new();
    let mut first_error = 0;

    let start = out.len();
    let frame = ReplyFrame::begin(out, call.correlation_id, call.flexible);
    let mut writer = ProduceResponseWriter::new(out, call.version, request.topics.len());
    for topic in &request.topics {
        let resolved = match naming {
            Naming::Id => ResolvedTopic::by_id(&map, &view, topic.topic_id),
            Naming::Name => ResolvedTopic::by_name(&map, &view, name_of(topic, body)),
        };
        let given = match naming {
            Naming::Id => None,
            Naming::Name => Some(name_of(topic, body)),
        };
        let refused_topic = refused_whole
            .or_else(|| access.refuse(Operation::WRITE, given, &resolved, &view))
            .or_else(|| refuse_internal(&resolved, call.client_id));
        writer.topic(
            name_of(topic, body),
            topic.topic_id,
            topic.partitions().len(),
        );
        for wanted in &request.partitions[topic.partitions()] {
            let appended = match refused_topic {
                Some(error) => Err(Refusal::code(error)),
                None => resolved
                    .partition(&view, wanted.index)
                    .map_err(Refusal::code)
                    .and_then(|partition| {
                        let records = wanted.records.map(|records| &mut body[records.range()]);
                        append(call, partition, records, request.acks, naming, tally)
                            .map(|info| (partition, info))
                    }),
            };
            match appended {
                Ok((partition, info)) => {
                    let error_position = writer.partition(&success(wanted.index, &info));
                    if request.acks == -1 && partition.high_watermark() <= info.last_offset {
                        waits.push(Wait {
                            commit: partition.committed(&info),
                            error_position,
                        });
                    }
                }
                Err(refusal) => {
                    tally.errors.push(refusal.error.0);
                    first_error = if first_error == 0 {
                        refusal.error.0
                    } else {
                        first_error
                    };
                    write_refusal(
                        &mut writer,
                        &resolved,
                        &view,
                        wanted.index,
                        &refusal,
                        &mut leaders,
                    );
                }
            }
        }
        writer.end_topic();
    }
    let node_endpoints = if leaders.is_empty() {
        Vec::new()
    } else {
        endpoints(&view, &call.connection.peer.listener, &leaders)
    };
    writer.end(0, &node_endpoints);
    if request.acks == 0 {
        out.truncate(start);
        return match first_error {
            0 => Ok(Done::Silent),
            error_code => Err(CloseReason::AcksZeroFailed { error_code }),
        };
    }
    frame.end(out);
    if waits.is_empty() {
        return Ok(Done::Written);
    }
    let reply = out.split_off(start);
    for wait in &mut waits {
        wait.error_position -= start;
    }
    waits.reverse();
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let pending = PendingProduce {
        reply,
        waits,
        naming,
        deadline: call.received + timeout,
        received: call.received,
    };
    Ok(Done::Waits(Box::new(pending)))
}

fn name_of<'b>(topic: &ProduceTopic, body: &'b [u8]) -> &'b str {
    // Checked to be UTF-8 when it was decoded.
    core::str::from_utf8(topic.name.of(body)).unwrap_or_default()
}

fn refuse_whole(transactional: bool, acks: i16) -> Option<ErrorCode> {
    if transactional {
        Some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    } else if !(-1..=1).contains(&acks) {
        Some(ErrorCode::INVALID_REQUIRED_ACKS)
    } else {
        None
    }
}

fn refuse_internal(resolved: &ResolvedTopic<'_>, client_id: Option<&str>) -> Option<ErrorCode> {
    let name = &*resolved.hosted?.name;
    let internal = name.starts_with("__") && INTERNAL_TOPICS.contains(&name);
    (internal && client_id != Some(ADMIN_CLIENT_ID)).then_some(ErrorCode::INVALID_TOPIC_EXCEPTION)
}

#[inline]
fn append(
    call: &Production<'_>,
    partition: &pybroker_replica::Partition,
    records: Option<&mut [u8]>,
    acks: i16,
    naming: Naming,
    tally: &mut Tally,
) -> Result<AppendInfo, Refusal> {
    let records = records.ok_or_else(|| Refusal::code(ErrorCode::INVALID_RECORD))?;
    let bytes = records.len() as u64;
    let rules = partition.produce_rules(call.version >= ZSTD, call.now_ms);
    let batches = validate_produce(records, &rules).map_err(|error| Refusal::batch(&error))?;
    if batches.first().is_transactional() {
        return Err(Refusal::code(
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ));
    }
    let info = partition
        .append(batches, acks, call.now_ms)
        .map_err(|error| Refusal::partition(&error, naming))?;
    tally.bytes += bytes;
    Ok(info)
}

fn success(index: i32, info: &AppendInfo) -> PartitionProduceResponse<'static> {
    PartitionProduceResponse {
        base_offset: info.base_offset,
        log_append_time_ms: info.log_append_time,
        log_start_offset: info.log_start_offset,
        ..PartitionProduceResponse::refused(index, 0, None)
    }
}

fn write_refusal(
    writer: &mut ProduceResponseWriter<'_>,
    resolved: &ResolvedTopic<'_>,
    view: &MetadataView,
    index: i32,
    refusal: &Refusal,
    leaders: &mut Vec<i32>,
) {
    let message = refusal.message.as_deref();
    let mut response = PartitionProduceResponse::refused(index, refusal.error.0, message);
    if let Some(batch_index) = refusal.record {
        response.record_errors.push(RecordError {
            batch_index,
            message,
        });
    }
    if points_elsewhere(refusal.error) {
        response.current_leader = resolved.current_leader(view, index);
        leaders.extend(response.current_leader.map(|leader| leader.leader_id));
    }
    writer.partition(&response);
}

impl PendingProduce {
    /// Ready when every commit has come, failed or is too late.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, now: Instant) -> Poll<()> {
        while let Some(wait) = self.waits.last_mut() {
            let error = match Pin::new(&mut wait.commit).poll(context) {
                Poll::Ready(Ok(())) => ErrorCode::NONE,
                Poll::Ready(Err(error)) => of_partition(&error, self.naming),
                Poll::Pending if now >= self.deadline => ErrorCode::REQUEST_TIMED_OUT,
                Poll::Pending => return Poll::Pending,
            };
            if error != ErrorCode::NONE {
                Writer::new(&mut self.reply, false).patch_i16(wait.error_position, error.0);
            }
            self.waits.pop();
        }
        Poll::Ready(())
    }

    /// The reply, once ready.
    pub(crate) fn reply(&self) -> &[u8] {
        &self.reply
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.reply.capacity() + self.waits.capacity() * size_of::<Wait>()
    }
}
