//! Hand-over of a Produce request to another thread, because its log directory is slow at this moment or it
//! decompresses too much.
//!
//! Appending on the data thread would block its other connections (`blocking/slow_appends.rs`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pybroker_model::TopicId;
use pybroker_protocol::hot::produce_request::{ProduceRequest, is_by_id};
use tokio::sync::oneshot;

use super::append::{ProduceResult, name_of};
use crate::api::Call;
use crate::blocking::slow_appends::FlushWatch;
use crate::clients::close_reason::CloseReason;
use crate::metrics::{Moments, Tally};

/// Return the slow log directory of one of the request's partitions, if there is one. Its thread must append the
/// request.
pub(super) fn slow_dir(
    call: &Call<'_>,
    flushes: &mut FlushWatch,
    request: &ProduceRequest,
    body: &[u8],
) -> Option<usize> {
    let map = call.shared.replicas.snapshot();
    let by_id = is_by_id(call.wire_version());
    request.topics.iter().find_map(|topic| {
        let id = if by_id {
            TopicId::new(topic.topic_id)
        } else {
            map.topic_id(name_of(topic, body))
        };
        let hosted = map.topic(id?)?;
        let mut wanted = request.partitions[topic.partitions()].iter();
        wanted.find_map(|wanted| flushes.slow_dir(hosted.partition(wanted.index)?, call.received))
    })
}

/// Result of the appends, the reply if it is [`ProduceResult::Written`], and the counts for the metrics.
pub(super) type AppendCompletion = (Result<ProduceResult, CloseReason>, Vec<u8>, Tally);

/// A request that another thread processes.
pub(crate) struct PendingAppend {
    pub(super) answer: oneshot::Receiver<AppendCompletion>,
    /// Memory held, in bytes.
    pub(super) bytes: usize,
    pub(super) moments: Moments,
    /// Version of the request.
    pub(super) version: i16,
}

impl PendingAppend {
    /// Ready when every partition is appended or refused; without a value if a shutdown dropped the request.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<AppendCompletion>> {
        Pin::new(&mut self.answer).poll(context).map(Result::ok)
    }
}
