//! Produce, versions 3–13: by name to v12, by topic id from v13. v0–2 are answered UNSUPPORTED_VERSION. Among brokers
//! version 9, by topic id.
//!
//! The handler looks up each partition in one snapshot of the metadata, checks its batch without holding a lock, and
//! appends it. If the records exceed the decompression budget of the turn, another thread appends the rest, in the
//! connection's order. With acks=all the handler writes the reply at once except for the error codes. It patches them
//! if a commit fails or misses `timeout_ms` (REQUEST_TIMED_OUT, with the assigned offsets, as Kafka answers).
//!
//! The first records of a transaction in a partition are appended after the transaction coordinator confirmed that the
//! partition is part of it (KIP-890). From v12 on the coordinator adds the partition.
//!
//! Refused: acks other than −1, 0, 1; internal topics (as Kafka does, unless the client id is `__admin_client`);
//! transactional records without permission for their transactional id. With acks=0 a failure closes the connection,
//! because there is no response that could carry an error.

mod append;
mod commit;
mod hand_over;
mod old_versions;
mod owned_request;
mod pending;
mod refusal;
mod verification;
mod verify;

use pybroker_protocol::hot::produce_request::VERSIONS;

pub(crate) use pending::PendingProduce;

use self::append::{Extent, Outcome, ProduceResult, append_all};
use self::hand_over::slow_dir;
use self::old_versions::run_unsupported;
use self::owned_request::OwnedProduce;
use self::verification::Verification;
use self::verify::ask;
use super::{Answer, Call};
use crate::blocking::slow_appends::SlowAppends;
use crate::clients::close_reason::CloseReason;
use crate::shared::ThreadState;

/// Append the records of the request. Offsets and timestamps are stamped into the batches in place, so the body is
/// mutable.
pub(crate) fn run(
    call: &Call<'_>,
    thread: &mut ThreadState,
    body: &mut [u8],
    out: &mut Vec<u8>,
) -> Result<Answer<PendingProduce>, CloseReason> {
    if call.version < *VERSIONS.start() {
        return run_unsupported(call, &thread.metrics, body, out);
    }
    let request = &mut thread.produce;
    request
        .decode(body, call.wire_version())
        .map_err(|error| call.bad_request(error))?;
    if request.transactional_id.is_some()
        && let Some(pending) = ask(call, request, body)
    {
        return Ok(Answer::Later(Box::new(PendingProduce::Verifying(pending))));
    }
    let elsewhere = |pending| Answer::Later(Box::new(PendingProduce::Appending(pending)));
    let verification = Verification::default();
    if let Some(dir) = slow_dir(call, &mut thread.flushes, request, body) {
        thread.metrics.slow_appends.add(1);
        let own = OwnedProduce::new(call, body, verification, None);
        return Ok(elsewhere(own.hand_over(|slow, job| slow.run(dir, job))));
    }
    let mut tally = core::mem::take(&mut thread.tally);
    let outcome = append_all(
        call,
        &thread.produce,
        body,
        (&verification, None),
        (&mut thread.expansion, Extent::Begin),
        (out, &mut tally, thread.flush_group.held()),
    );
    thread.note(&mut tally);
    // Keep the tally's memory for the next request.
    thread.tally = tally;
    Ok(match outcome? {
        Outcome::Done(ProduceResult::Written) => Answer::Written,
        Outcome::Done(ProduceResult::Silent) => Answer::Silent,
        Outcome::Done(ProduceResult::Waits(pending)) => {
            Answer::Later(Box::new(PendingProduce::Committing(pending)))
        }
        Outcome::Rest(rest) => {
            let own = OwnedProduce::new(call, body, verification, Some(rest));
            elsewhere(own.hand_over(SlowAppends::unpack))
        }
    })
}
