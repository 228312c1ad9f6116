//! Cached responses of the control plane, which data threads repeat until they are invalidated
//! (`leases/cached_responses`).

use super::Call;
use crate::net::outgoing::Outgoing;
use crate::net::reply::ReplyFrame;
use crate::quotas::throttle_time;
use crate::shared::ThreadState;

/// Write the cached response as a reply. Return false if the control plane must answer instead.
pub(crate) fn write(
    call: &Call<'_>,
    thread: &mut ThreadState,
    body: &[u8],
    outgoing: &mut Outgoing,
) -> bool {
    let cached = &call.connection.cached_responses;
    let Some(response) = cached.find(call.api_key, call.version, body) else {
        return false;
    };
    // Check the permission first, because `repeat` counts as a heartbeat of the member. If the client has lost its
    // permission, the control plane refuses the request.
    if !call.access().may_read_for(response.group()) || !response.repeat(call.began) {
        return false;
    }
    let out = outgoing.tail(&mut thread.pool);
    let frame = ReplyFrame::begin(out, call.reply);
    let body_at = out.len();
    out.extend_from_slice(response.body());
    if call.throttle_time_ms > 0 {
        let (key, version) = (call.api_key, call.version);
        throttle_time::raise(key, version, &mut out[body_at..], call.throttle_time_ms);
    }
    frame.end(out);
    true
}
