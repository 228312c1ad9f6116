//! The hand-over of a Produce to the thread of a log directory that is slow at this moment: appending there would hold
//! up every other connection of the data thread (`slow_appends.rs`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use pybroker_model::TopicId;
use pybroker_protocol::hot::produce_request::{BY_ID, ProduceRequest};
use tokio::sync::oneshot;

use super::{Done, PendingProduce, Production, Tally, append_all, name_of};
use crate::api::{Answer, Call};
use crate::close::CloseReason;
use crate::config::SecurityProtocol;
use crate::metrics::ThreadMetrics;
use crate::shared::ConnectionInfo;
use crate::slots::Slot;

/// The log directory whose thread has to do this, if one of the partitions would keep this one waiting.
pub(super) fn slow_dir(
    call: &mut Call<'_, '_>,
    request: &ProduceRequest,
    body: &[u8],
) -> Option<usize> {
    let map = call.shared.replicas.snapshot();
    let flushes = &mut call.thread.flushes;
    let by_id = call.version >= BY_ID;
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

/// Hands the request to the thread of a slow log directory.
pub(super) fn append_elsewhere(call: &Call<'_, '_>, dir: usize, body: &[u8]) -> Answer {
    let (sender, answer) = oneshot::channel();
    let mut body = Box::<[u8]>::from(body);
    let bytes = body.len();
    let shared = Arc::clone(call.shared);
    let peer = Arc::clone(&call.connection.peer);
    let principal = Arc::clone(&call.connection.principal);
    let client_id = call.client_id.map(str::to_owned);
    let (version, correlation_id, flexible) = (call.version, call.correlation_id, call.flexible);
    let (received, now_ms) = (call.received, call.now_ms);
    call.shared.slow_appends.run(
        dir,
        Box::new(move || {
            // Who it is from; what was decided about it so far stays with the data thread.
            let connection = ConnectionInfo::new(peer, SecurityProtocol::Plaintext, principal);
            let production = Production {
                shared: &shared,
                connection: &connection,
                client_id: client_id.as_deref(),
                version,
                correlation_id,
                flexible,
                received,
                now_ms,
            };
            let mut request = ProduceRequest::default();
            let mut tally = Tally::default();
            let mut reply = Vec::new();
            // It was decoded without error by the data thread.
            let done = match request.decode(&body, version) {
                Ok(()) => append_all(&production, &request, &mut body, &mut reply, &mut tally),
                Err(error) => Err(CloseReason::BadRequest {
                    api_key: 0,
                    api_version: version,
                    error,
                }),
            };
            // The connection may have gone meanwhile.
            drop(sender.send((done, reply, tally)));
        }),
    );
    call.thread.metrics.slow_appends.add(1);
    Answer::Later(Slot::Appending(Box::new(PendingAppend {
        answer,
        bytes,
        received: call.received,
    })))
}

/// A request that the thread of a slow log directory has.
pub(crate) struct PendingAppend {
    answer: oneshot::Receiver<(Result<Done, CloseReason>, Vec<u8>, Tally)>,
    bytes: usize,
    pub(crate) received: Instant,
}

/// What came of it.
pub(crate) enum Appended {
    /// The whole reply frame, empty with acks=0.
    Answered(Vec<u8>),
    /// Its commit is still to come.
    Waits(Box<PendingProduce>),
}

impl PendingAppend {
    /// Ready when everything is appended or refused.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        metrics: &ThreadMetrics,
    ) -> Result<Poll<Appended>, CloseReason> {
        let (done, reply, tally) = match Pin::new(&mut self.answer).poll(context) {
            Poll::Pending => return Ok(Poll::Pending),
            // Dropped by a stop.
            Poll::Ready(Err(_)) => return Err(CloseReason::Draining),
            Poll::Ready(Ok(answer)) => answer,
        };
        tally.note(metrics);
        Ok(Poll::Ready(match done? {
            Done::Written => Appended::Answered(reply),
            Done::Silent => Appended::Answered(Vec::new()),
            Done::Waits(pending) => Appended::Waits(pending),
        }))
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
