//! The question whether a transaction's first records in a partition belong to it (KIP-890): a batch that comes after its
//! transaction has ended would begin one that nobody ends.
//!
//! Asked once a transaction and partition, of the transaction's coordinator, before anything is appended. Where the log
//! ends by then is remembered: what ends the transaction while the answer is on its way lies behind it, and the log
//! refuses the batch.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pybroker_model::BatchHeader;
use pybroker_protocol::hot::produce_request::{ProduceRequest, is_by_id};
use pybroker_replica::HeldFlushes;
use tokio::sync::oneshot;

use super::append::{append_all, name_of};
use super::hand_over::Appended;
use super::verified::{Asked, Verified};
use crate::api::Call;
use crate::control_plane::{CodesSender, TransactionQuestion};
use crate::metrics::{Moments, Tally};
use crate::resolve::ResolvedTopic;

/// First version whose sender is told TRANSACTION_ABORTABLE.
const ABORTABLE: i16 = 11;
/// First version whose partitions become part of the transaction by being written to.
const ADDS: i16 = 12;

/// Asks the coordinator about the partitions in which the request would begin a transaction, if there are any.
pub(super) fn ask(
    call: &Call<'_>,
    request: &ProduceRequest,
    body: &[u8],
) -> Option<PendingVerification> {
    let transactional_id = core::str::from_utf8(request.transactional_id?.of(body)).ok()?;
    let view = call.shared.metadata.load();
    let map = call.shared.replicas.snapshot();
    let by_id = is_by_id(call.wire_version());
    let mut asked = Vec::new();
    let mut producer = None;
    for topic in &request.topics {
        let resolved = if by_id {
            ResolvedTopic::by_id(&map, &view, topic.topic_id)
        } else {
            ResolvedTopic::by_name(&map, &view, name_of(topic, body))
        };
        for wanted in &request.partitions[topic.partitions()] {
            let Ok(partition) = resolved.partition(&view, wanted.index) else {
                continue;
            };
            let header = wanted
                .records
                .and_then(|records| BatchHeader::parse(records.of(body)).ok());
            let Some(header) = header.filter(BatchHeader::is_transactional) else {
                continue;
            };
            let (id, epoch) = (header.producer_id, header.producer_epoch);
            if *producer.get_or_insert((id, epoch)) == (id, epoch)
                && partition.may_begin_transaction(id, epoch)
            {
                asked.push(Asked {
                    tip: partition.tip(),
                    end: partition.log_end_offset(),
                });
            }
        }
    }
    let (producer_id, producer_epoch) = producer.filter(|_| !asked.is_empty())?;
    let (answer, codes) = CodesSender::new();
    call.shared.control.ask(TransactionQuestion {
        transactional_id: transactional_id.to_owned(),
        producer_id,
        producer_epoch,
        adds: call.version >= ADDS,
        abortable: call.version >= ABORTABLE,
        partitions: asked.iter().map(|asked| asked.tip).collect(),
        answer,
    });
    Some(PendingVerification {
        codes,
        bytes: body.len(),
        moments: call.moments(),
        version: call.version,
        append: Some(appending(call, body, asked)),
    })
}

type Append = Box<dyn FnOnce(Vec<i16>) -> Appended + Send>;

/// What is to be done when the answer has come.
fn appending(call: &Call<'_>, body: &[u8], partitions: Vec<Asked>) -> Append {
    let mut body = Box::<[u8]>::from(body);
    let shared = Arc::clone(call.shared);
    let connection = call.connection.identity();
    let client_id = call.client_id.map(str::to_owned);
    let (api_key, version, reply) = (call.api_key, call.version, call.reply);
    let (received, began, now_ms) = (call.received, call.began, call.now_ms);
    let adds = version >= ADDS;
    let throttle_time_ms = call.throttle_time_ms;
    Box::new(move |codes| {
        let call = Call {
            shared: &shared,
            connection: &connection,
            api_key,
            version,
            reply,
            client_id: client_id.as_deref(),
            received,
            began,
            now_ms,
            throttle_time_ms,
        };
        let verified = Verified {
            partitions,
            adds,
            codes,
        };
        let mut request = ProduceRequest::default();
        let mut tally = Tally::default();
        let mut out = Vec::new();
        // It was decoded without error before.
        let done = match request.decode(&body, call.wire_version()) {
            Ok(()) => append_all(
                &call,
                &request,
                &verified,
                &mut body,
                &mut out,
                &mut tally,
                &mut HeldFlushes::default(),
            ),
            Err(error) => Err(call.bad_request(error)),
        };
        (done, out, tally)
    })
}

/// A request that waits for the coordinator of its transaction.
pub(crate) struct PendingVerification {
    codes: oneshot::Receiver<Vec<i16>>,
    append: Option<Append>,
    /// Memory held.
    pub(super) bytes: usize,
    pub(super) moments: Moments,
    /// Of the request.
    pub(super) version: i16,
}

impl PendingVerification {
    /// Ready when the answer has come and everything is appended or refused.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Appended>> {
        let Poll::Ready(codes) = Pin::new(&mut self.codes).poll(context) else {
            return Poll::Pending;
        };
        Poll::Ready(
            self.append
                .take()
                .map(|append| append(codes.unwrap_or_default())),
        )
    }
}
