//! The hand-over of a Produce to the thread of a log directory that is slow at this moment: appending there would hold
//! up every other connection of the data thread (`slow_appends.rs`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pybroker_model::TopicId;
use pybroker_protocol::hot::produce_request::{ProduceRequest, is_by_id};
use pybroker_replica::HeldFlushes;
use tokio::sync::oneshot;

use super::append::{Done, append_all, name_of};
use super::verified::Verified;
use crate::api::Call;
use crate::close::CloseReason;
use crate::metrics::{Moments, Tally};
use crate::slow_appends::FlushWatch;

/// The log directory whose thread has to do this, if one of the partitions would keep this one waiting.
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

/// Hands the request to the thread of a slow log directory.
pub(super) fn append_elsewhere(call: &Call<'_>, dir: usize, body: &[u8]) -> PendingAppend {
    let (sender, answer) = oneshot::channel();
    let mut body = Box::<[u8]>::from(body);
    let bytes = body.len();
    let shared = Arc::clone(call.shared);
    let connection = call.connection.identity();
    let client_id = call.client_id.map(str::to_owned);
    let (api_key, version, header) = (call.api_key, call.version, call.reply);
    let (received, began, now_ms) = (call.received, call.began, call.now_ms);
    let throttle_time_ms = call.throttle_time_ms;
    call.shared.slow_appends.run(
        dir,
        Box::new(move || {
            let call = Call {
                shared: &shared,
                connection: &connection,
                api_key,
                version,
                reply: header,
                client_id: client_id.as_deref(),
                received,
                began,
                now_ms,
                throttle_time_ms,
            };
            let mut request = ProduceRequest::default();
            let mut tally = Tally::default();
            let mut reply = Vec::new();
            // It was decoded without error by the data thread.
            let done = match request.decode(&body, call.wire_version()) {
                Ok(()) => append_all(
                    &call,
                    &request,
                    &Verified::default(),
                    &mut body,
                    &mut reply,
                    &mut tally,
                    &mut HeldFlushes::default(),
                ),
                Err(error) => Err(call.bad_request(error)),
            };
            // The connection may have gone meanwhile.
            drop(sender.send((done, reply, tally)));
        }),
    );
    PendingAppend {
        answer,
        bytes,
        moments: call.moments(),
        version: call.version,
    }
}

/// What became of the appends, the reply if it is [`Done::Written`], and what to tell the metrics.
pub(super) type Appended = (Result<Done, CloseReason>, Vec<u8>, Tally);

/// A request that the thread of a slow log directory has.
pub(crate) struct PendingAppend {
    answer: oneshot::Receiver<Appended>,
    /// Memory held.
    pub(super) bytes: usize,
    pub(super) moments: Moments,
    /// Of the request.
    pub(super) version: i16,
}

impl PendingAppend {
    /// Ready when everything is appended or refused; without a value if a stop has dropped it.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Appended>> {
        Pin::new(&mut self.answer).poll(context).map(Result::ok)
    }
}
