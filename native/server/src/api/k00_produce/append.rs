//! Processing of a decoded Produce request: look up, check, append and answer each partition.

use std::time::{Duration, Instant};

use pybroker_model::{BatchError, ExpansionBudget, validate_within};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::hot::produce_request::{
    ProducePartition, ProduceRequest, ProduceTopic, is_by_id,
};
use pybroker_protocol::hot::produce_response::{PartitionProduceResponse, ProduceResponseWriter};
use pybroker_protocol::primitives::Span;
use pybroker_replica::{AppendInfo, HeldFlushes, Partition};
use pybroker_storage::AppendOrigin;

use super::commit::{PendingCommit, Wait};
use super::refusal::{Refusal, refuse_acks, refuse_internal};
use super::verification::Verification;
use crate::api::Call;
use crate::api::topic_lookup::{ResolvedTopic, endpoints, points_elsewhere};
use crate::authorizer::Operation;
use crate::clients::close_reason::CloseReason;
use crate::error_codes::Naming;
use crate::metadata_view::MetadataView;
use crate::metrics::{Moments, Tally};
use crate::net::reply::ReplyFrame;

/// First version that may carry zstd (KIP-110).
const ZSTD: i16 = 7;

/// Result of the appends of a request.
pub(super) enum ProduceResult {
    /// The whole reply frame is in the output.
    Written,
    /// The request has no reply (acks=0).
    Silent,
    /// The records are appended; the reply waits for the commit.
    Waits(PendingCommit),
}

/// Progress of the appends of a request.
pub(super) enum Outcome {
    /// All partitions are processed.
    Done(ProduceResult),
    /// The budget is used up; the rest is left.
    Rest(Rest),
}

/// What the handler does when the budget is used up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The handler leaves the rest to another thread.
    Begin,
    /// The handler refuses the partitions that exceed the budget.
    Finish,
}

/// A request whose first partitions are answered.
pub(super) struct Rest {
    /// Position of the next partition: topic, and partition within the topic.
    place: (usize, usize),
    /// The reply for the partitions before it.
    reply: Vec<u8>,
    reply_tail: ReplyTail,
    tally: Tally,
}

/// Data collected from the partitions for the end of the reply.
#[derive(Default)]
struct ReplyTail {
    /// Appends that are not committed yet.
    waits: Vec<Wait>,
    /// Current leaders to include in the response.
    leaders: Vec<i32>,
    /// Kafka error code of the first refused partition, 0 = none.
    first_error: i16,
}

/// Append and answer the partitions of the request, starting at `rest`, until the budget is used up.
pub(super) fn append_all(
    call: &Call<'_>,
    request: &ProduceRequest,
    body: &mut [u8],
    (verification, rest): (&Verification, Option<Rest>),
    (budget, extent): (&mut ExpansionBudget, Extent),
    (out, tally, held): (&mut Vec<u8>, &mut Tally, &mut HeldFlushes),
) -> Result<Outcome, CloseReason> {
    let view = call.shared.metadata.load();
    let wire = call.wire_version();
    let naming = naming_of(wire);
    let start = out.len();
    let mut reply_tail = ReplyTail::default();
    let mut from = None;
    let (frame, writer) = match rest {
        None => (
            ReplyFrame::begin(out, call.reply),
            ProduceResponseWriter::new(out, wire, request.topics.len()),
        ),
        Some(rest) => {
            out.extend_from_slice(&rest.reply);
            (reply_tail, from, *tally) = (rest.reply_tail, Some(rest.place), rest.tally);
            for wait in &mut reply_tail.waits {
                wait.error_position += start;
            }
            (
                ReplyFrame::resume(start),
                ProduceResponseWriter::resume(out, wire),
            )
        }
    };
    let mut appender = Appender {
        call,
        view: &view,
        naming,
        acks: request.acks,
        transactional: request.transactional_id.is_some(),
        verification,
        writer,
        reply_tail,
        budget,
        extent,
        tally,
        held,
    };
    let stopped = appender.topics(request, body, from);
    let Appender {
        writer,
        mut reply_tail,
        tally,
        ..
    } = appender;
    if let Some(place) = stopped {
        let tally = core::mem::take(tally);
        let reply = out.split_off(start);
        for wait in &mut reply_tail.waits {
            wait.error_position -= start;
        }
        return Ok(Outcome::Rest(Rest {
            place,
            reply,
            reply_tail,
            tally,
        }));
    }
    let ReplyTail {
        mut waits,
        leaders,
        first_error,
    } = reply_tail;
    let node_endpoints = if leaders.is_empty() {
        Vec::new()
    } else {
        endpoints(&view, &call.connection.peer.listener, &leaders)
    };
    writer.end(call.throttle_time_ms, &node_endpoints);
    if request.acks == 0 {
        out.truncate(start);
        return match first_error {
            0 => Ok(Outcome::Done(ProduceResult::Silent)),
            error_code => Err(CloseReason::AcksZeroFailed { error_code }),
        };
    }
    frame.end(out);
    if waits.is_empty() {
        return Ok(Outcome::Done(ProduceResult::Written));
    }
    let reply = out.split_off(start);
    for wait in &mut waits {
        wait.error_position -= start;
    }
    waits.reverse();
    let moments = Moments {
        waits: Some(Instant::now()),
        ..call.moments()
    };
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    Ok(Outcome::Done(ProduceResult::Waits(PendingCommit {
        reply,
        waits,
        naming,
        deadline: call.received + timeout,
        moments,
        version: call.version,
    })))
}

fn naming_of(wire: WireVersion) -> Naming {
    if is_by_id(wire) {
        Naming::Id
    } else {
        Naming::Name
    }
}

/// State of a request that is being answered.
struct Appender<'a, 'c> {
    call: &'a Call<'c>,
    view: &'a MetadataView,
    naming: Naming,
    acks: i16,
    /// Whether the request names a transactional id that the client is permitted to use.
    transactional: bool,
    verification: &'a Verification,
    writer: ProduceResponseWriter<'a>,
    reply_tail: ReplyTail,
    budget: &'a mut ExpansionBudget,
    extent: Extent,
    tally: &'a mut Tally,
    held: &'a mut HeldFlushes,
}

/// Reason why records were not appended.
enum AppendFailure {
    Refused(Refusal),
    /// The budget is used up; another thread continues.
    OverBudget,
}

impl From<Refusal> for AppendFailure {
    fn from(refusal: Refusal) -> Self {
        AppendFailure::Refused(refusal)
    }
}

/// Return whether the batch's leader epoch shows that it was made for an earlier incarnation of the topic name.
///
/// This is the case if the batch's epoch is below the first epoch of this log. The values -1 and 0 show nothing:
/// clients that do not set the field send -1, and librdkafka sends 0. The caller refuses the batch with an error after
/// which producers refresh metadata.
#[inline]
fn is_of_before(partition: &Partition, leader_epoch: i32) -> bool {
    leader_epoch > 0 && partition.is_before(leader_epoch)
}

impl Appender<'_, '_> {
    /// Answer topics and partitions, starting at `from`, where another thread stopped. Return the position at which the
    /// budget ran out, if it did.
    fn topics(
        &mut self,
        request: &ProduceRequest,
        body: &mut [u8],
        from: Option<(usize, usize)>,
    ) -> Option<(usize, usize)> {
        let map = self.call.shared.replicas.snapshot();
        let access = self.call.access();
        let transactional_id = request.transactional_id.map(|id| text(id, body));
        let refused_whole = access
            .refuse_transactional_id(transactional_id)
            .or_else(|| refuse_acks(request.acks));
        let (first_topic, _) = from.unwrap_or_default();
        for (number, topic) in request.topics.iter().enumerate().skip(first_topic) {
            let partitions = &request.partitions[topic.partitions()];
            let name = name_of(topic, body);
            let begun = from.filter(|(topic, _)| *topic == number);
            if begun.is_none() {
                self.writer.topic(name, topic.topic_id, partitions.len());
            }
            let (resolved, given) = match self.naming {
                Naming::Id => (ResolvedTopic::by_id(&map, self.view, topic.topic_id), None),
                Naming::Name => (ResolvedTopic::by_name(&map, self.view, name), Some(name)),
            };
            let refused = refused_whole
                .or_else(|| access.refuse(Operation::WRITE, given, &resolved, self.view))
                .or_else(|| refuse_internal(&resolved, self.call.client_id));
            if begun.is_none() {
                self.tally.topic(resolved.id);
            }
            let (_, first) = begun.unwrap_or_default();
            for (place, wanted) in partitions.iter().enumerate().skip(first) {
                match self.append(&resolved, refused, wanted, body) {
                    Ok((partition, info)) => self.succeeded(wanted.index, partition, &info),
                    Err(AppendFailure::OverBudget) => return Some((number, place)),
                    Err(AppendFailure::Refused(refusal)) => {
                        let bytes = wanted.records.map_or(0, |records| records.range().len());
                        self.tally.refused(refusal.error, bytes as u64);
                        self.refused(&resolved, wanted.index, &refusal);
                    }
                }
            }
            self.writer.end_topic();
        }
        None
    }

    #[inline]
    fn append<'p>(
        &mut self,
        topic: &ResolvedTopic<'p>,
        refused: Option<ErrorCode>,
        wanted: &ProducePartition,
        body: &mut [u8],
    ) -> Result<(&'p Partition, AppendInfo), AppendFailure> {
        if let Some(error) = refused {
            return Err(Refusal::code(error).into());
        }
        let partition = topic
            .partition(self.view, wanted.index)
            .map_err(Refusal::code)?;
        let records = wanted
            .records
            .ok_or_else(|| Refusal::code(ErrorCode::INVALID_RECORD))?;
        let records = &mut body[records.range()];
        let bytes = records.len() as u64;
        let now_ms = self.call.now_ms;
        let rules = partition.produce_rules(self.call.version >= ZSTD, now_ms);
        let extent = self.extent;
        let batches =
            validate_within(records, &rules, self.budget).map_err(|error| match error {
                BatchError::OverBudget { .. } if extent == Extent::Begin => {
                    AppendFailure::OverBudget
                }
                error => Refusal::batch(&error).into(),
            })?;
        if matches!(self.naming, Naming::Name)
            && is_of_before(partition, batches.first().partition_leader_epoch)
        {
            return Err(Refusal::code(ErrorCode::NOT_LEADER_OR_FOLLOWER).into());
        }
        let origin = if batches.first().is_transactional() {
            if !self.transactional {
                let error = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
                return Err(Refusal::code(error).into());
            }
            self.verification
                .origin(partition.tip())
                .map_err(|error| match error {
                    ErrorCode::NOT_ENOUGH_REPLICAS | ErrorCode::CONCURRENT_TRANSACTIONS => {
                        let ending = error == ErrorCode::CONCURRENT_TRANSACTIONS;
                        let refusal = partition.unconfirmed(batches.first(), ending, now_ms);
                        Refusal::partition(&refusal, self.naming)
                    }
                    other => Refusal::code(other),
                })?
        } else {
            AppendOrigin::Client
        };
        let info = partition
            .append_with(origin, -1, batches, self.acks, now_ms, self.held)
            .map_err(|error| Refusal::append(&error, self.naming, partition.log_start_offset()))?;
        let messages = info.last_offset - info.base_offset + 1;
        self.tally.appended(bytes, messages.unsigned_abs());
        Ok((partition, info))
    }

    #[inline]
    fn succeeded(&mut self, index: i32, partition: &Partition, info: &AppendInfo) {
        let error_position = self.writer.partition(&PartitionProduceResponse {
            base_offset: info.base_offset,
            log_append_time_ms: info.log_append_time,
            log_start_offset: info.log_start_offset,
            ..PartitionProduceResponse::refused(index, 0, None)
        });
        if self.acks == -1 && partition.high_watermark() <= info.last_offset {
            self.reply_tail.waits.push(Wait {
                commit: partition.committed(info),
                error_position,
            });
        }
    }

    fn refused(&mut self, topic: &ResolvedTopic<'_>, index: i32, refusal: &Refusal) {
        if self.reply_tail.first_error == 0 {
            self.reply_tail.first_error = refusal.error.0;
        }
        if let Some(hosted) = topic.hosted.filter(|_| refusal.is_for_want_of_replicas()) {
            let log = &self.call.shared.log;
            log.about_topic(hosted.id, || refusal.line(&hosted.name, index));
        }
        let mut response = refusal.response(index);
        if points_elsewhere(refusal.error) {
            response.current_leader = topic.current_leader(self.view, index);
            self.reply_tail
                .leaders
                .extend(response.current_leader.map(|leader| leader.leader_id));
        }
        self.writer.partition(&response);
    }
}

/// Return the name of the topic in a request that names topics.
pub(super) fn name_of<'b>(topic: &ProduceTopic, body: &'b [u8]) -> &'b str {
    text(topic.name, body)
}

fn text(span: Span, body: &[u8]) -> &str {
    // Decoding verified that the bytes are UTF-8.
    core::str::from_utf8(span.of(body)).unwrap_or_default()
}
