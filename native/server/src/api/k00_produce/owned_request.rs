//! A Produce request that owns its body, to be processed by another thread or later.

use std::sync::Arc;

use pybroker_model::{ExpansionBudget, expansion_max};
use pybroker_protocol::hot::produce_request::ProduceRequest;
use pybroker_replica::HeldFlushes;
use tokio::sync::oneshot;

use super::append::{Extent, Outcome, ProduceResult, Rest, append_all};
use super::hand_over::{AppendCompletion, PendingAppend};
use super::verification::Verification;
use crate::api::Call;
use crate::blocking::slow_appends::SlowAppends;
use crate::blocking::workers::Job;
use crate::clients::close_reason::CloseReason;
use crate::clients::connection_info::ConnectionInfo;
use crate::metrics::{Moments, Tally};
use crate::net::reply::ReplyHeader;
use crate::shared::ServerState;

/// A Produce request together with its body.
pub(super) struct OwnedProduce {
    shared: Arc<ServerState>,
    connection: ConnectionInfo,
    client_id: Option<String>,
    api_key: i16,
    version: i16,
    reply: ReplyHeader,
    moments: Moments,
    now_ms: i64,
    throttle_time_ms: i32,
    body: Box<[u8]>,
    pub(super) verification: Verification,
    /// The partitions that are still to be processed.
    rest: Option<Rest>,
}

impl OwnedProduce {
    /// Create an owned request. `rest` is set if the data thread has already answered some partitions.
    pub(super) fn new(
        call: &Call<'_>,
        body: &[u8],
        verification: Verification,
        rest: Option<Rest>,
    ) -> Self {
        OwnedProduce {
            shared: Arc::clone(call.shared),
            connection: call.connection.identity(),
            client_id: call.client_id.map(str::to_owned),
            api_key: call.api_key,
            version: call.version,
            reply: call.reply,
            moments: call.moments(),
            now_ms: call.now_ms,
            throttle_time_ms: call.throttle_time_ms,
            body: Box::from(body),
            verification,
            rest,
        }
    }

    /// Hand the request to another thread; `submit` chooses the thread.
    pub(super) fn hand_over(self, submit: impl FnOnce(&SlowAppends, Job)) -> PendingAppend {
        let (sender, answer) = oneshot::channel();
        let pending = PendingAppend {
            answer,
            bytes: self.body.len(),
            moments: self.moments,
            version: self.version,
        };
        let shared = Arc::clone(&self.shared);
        // The connection may have closed in the meantime.
        let job = move || drop(sender.send(self.append_to_the_end()));
        submit(&shared.slow_appends, Box::new(job));
        pending
    }

    /// Append as much as the budget of a data thread allows, and hand the rest to another thread.
    pub(super) fn append(
        mut self,
        budget: &mut ExpansionBudget,
    ) -> Result<AppendCompletion, PendingAppend> {
        let (outcome, reply, tally) = self.append_within(budget, Extent::Begin);
        match outcome {
            Ok(Outcome::Done(done)) => Ok((Ok(done), reply, tally)),
            Err(reason) => Ok((Err(reason), reply, tally)),
            Ok(Outcome::Rest(rest)) => {
                self.rest = Some(rest);
                Err(self.hand_over(SlowAppends::unpack))
            }
        }
    }

    /// Append all partitions. Refuse records that decompress beyond the limit.
    fn append_to_the_end(mut self) -> AppendCompletion {
        let mut budget = ExpansionBudget::new(expansion_max(self.body.len()));
        let (outcome, reply, tally) = self.append_within(&mut budget, Extent::Finish);
        let done: Result<ProduceResult, CloseReason> = match outcome {
            Ok(Outcome::Done(done)) => Ok(done),
            Ok(Outcome::Rest(_)) => Err(CloseReason::ReplyLost {
                api_key: self.api_key,
            }),
            Err(reason) => Err(reason),
        };
        (done, reply, tally)
    }

    fn append_within(
        &mut self,
        budget: &mut ExpansionBudget,
        extent: Extent,
    ) -> (Result<Outcome, CloseReason>, Vec<u8>, Tally) {
        let call = Call {
            shared: &self.shared,
            connection: &self.connection,
            api_key: self.api_key,
            version: self.version,
            reply: self.reply,
            client_id: self.client_id.as_deref(),
            received: self.moments.received,
            began: self.moments.began,
            now_ms: self.now_ms,
            throttle_time_ms: self.throttle_time_ms,
        };
        let mut request = ProduceRequest::default();
        let mut tally = Tally::default();
        let mut out = Vec::new();
        // The same body was decoded without error before.
        let outcome = match request.decode(&self.body, call.wire_version()) {
            Ok(()) => append_all(
                &call,
                &request,
                &mut self.body,
                (&self.verification, self.rest.take()),
                (budget, extent),
                (&mut out, &mut tally, &mut HeldFlushes::default()),
            ),
            Err(error) => Err(call.bad_request(error)),
        };
        (outcome, out, tally)
    }
}
