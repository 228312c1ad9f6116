//! Verification that a transaction's first records in a partition belong to it (KIP-890).
//!
//! Without it, a batch that arrives after its transaction has ended would begin a transaction that never ends. The
//! broker asks the transaction coordinator once for each transaction and partition, before it appends anything. It
//! remembers the log end offset at that time. If a marker is written before the append, its offset is not below that
//! log end, and the log refuses the batch.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pybroker_model::{BatchHeader, ExpansionBudget};
use pybroker_protocol::hot::produce_request::{ProduceRequest, is_by_id};
use tokio::sync::oneshot;

use super::append::name_of;
use super::hand_over::{AppendCompletion, PendingAppend};
use super::owned_request::OwnedProduce;
use super::verification::{CheckedPartition, Verification};
use crate::api::Call;
use crate::api::topic_lookup::ResolvedTopic;
use crate::control_plane::{CodesSender, TransactionQuestion};
use crate::metrics::Moments;

/// First version whose clients understand TRANSACTION_ABORTABLE.
const ABORTABLE: i16 = 11;
/// First version whose writes add partitions to the transaction.
const ADDS: i16 = 12;

/// Ask the coordinator about the partitions in which the request would begin a transaction, if there are any.
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
                asked.push(CheckedPartition {
                    tip: partition.tip(),
                    end: partition.log_end_offset(),
                });
            }
        }
    }
    let (producer_id, producer_epoch) = producer.filter(|_| !asked.is_empty())?;
    let (answer, codes) = CodesSender::new();
    let adds = call.version >= ADDS;
    call.shared.control.ask(TransactionQuestion {
        transactional_id: transactional_id.to_owned(),
        producer_id,
        producer_epoch,
        adds,
        abortable: call.version >= ABORTABLE,
        partitions: asked.iter().map(|asked| asked.tip).collect(),
        answer,
    });
    let verification = Verification {
        partitions: asked,
        adds,
        codes: Vec::new(),
    };
    Some(PendingVerification {
        codes,
        bytes: body.len(),
        moments: call.moments(),
        version: call.version,
        own: Some(OwnedProduce::new(call, body, verification, None)),
    })
}

/// A request that waits for the transaction coordinator.
pub(crate) struct PendingVerification {
    codes: oneshot::Receiver<Vec<i16>>,
    own: Option<OwnedProduce>,
    /// Memory held, in bytes.
    pub(super) bytes: usize,
    pub(super) moments: Moments,
    /// Version of the request.
    pub(super) version: i16,
}

impl PendingVerification {
    /// Ready when the coordinator has answered. The value is the result of the appends, if they fit the data thread's
    /// budget, or else the request that another thread continues.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        budget: &mut ExpansionBudget,
    ) -> Poll<Option<Result<AppendCompletion, PendingAppend>>> {
        let Poll::Ready(codes) = Pin::new(&mut self.codes).poll(context) else {
            return Poll::Pending;
        };
        Poll::Ready(self.own.take().map(|mut own| {
            own.verification.codes = codes.unwrap_or_default();
            own.append(budget)
        }))
    }
}
