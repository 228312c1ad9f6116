//! Metrics and slow request log lines (`slow.request.log.ms`) of requests whose replies were sent.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pybroker_protocol::Api;

use super::Connection;
use crate::clients::connection_info::ConnectionInfo;
use crate::config::LogLevel;
use crate::metrics::slow_requests::SlowRequest;
use crate::metrics::{AnsweredRequest, STAGES, Split, micros_of};
use crate::shared::{ServerState, ThreadState};

/// Maximum size of a reply that reaches the kernel within microseconds. Its send time counts as its write time, which
/// saves a clock read (half a percent of a small request).
const AT_ONCE_BYTES_MAX: usize = 16 << 10;

impl Connection {
    /// Count the times of the replies that were sent, the last one with `bytes`.
    pub(super) fn note_sent(&mut self, thread: &mut ThreadState, bytes: usize) {
        if self.unsent.is_empty() && thread.unsent.is_empty() {
            return;
        }
        let at_once = self.unsent.is_empty() && bytes <= AT_ONCE_BYTES_MAX;
        let now = if at_once {
            thread.clock
        } else {
            Instant::now()
        };
        let limit = thread.settings.slow_request.map_or(u64::MAX, micros_of);
        let (metrics, shared, info) = (&thread.metrics, &self.shared, &self.info);
        for unsent in [&mut self.unsent, &mut thread.unsent] {
            unsent.sent(metrics, now, limit, |answered, split| {
                metrics.slow_requests.add(1);
                log_slow(shared, info, answered, split);
                shared
                    .slow_requests
                    .note(|| kept(info, answered, split, now));
            });
        }
    }
}

/// Return the data that a trace of the request needs.
fn kept(
    info: &ConnectionInfo,
    answered: &AnsweredRequest,
    split: &Split,
    now: Instant,
) -> SlowRequest {
    let ago = now.saturating_duration_since(answered.moments.received);
    let client_id = info.client_id.borrow();
    SlowRequest {
        api_key: answered.api_key,
        version: answered.version,
        received: SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH),
        stages_us: split.stages,
        client_id: client_id.as_deref().unwrap_or_default().into(),
        principal: Arc::clone(&info.principal),
        listener: Arc::clone(&info.peer.listener),
        address: info.peer.address,
    }
}

/// Log a slow request, within the rate limit of lines about clients.
fn log_slow(
    shared: &ServerState,
    info: &ConnectionInfo,
    answered: &AnsweredRequest,
    split: &Split,
) {
    let name = Api::find(answered.api_key).map_or("Other", |api| api.name());
    let millis = |micros: u64| micros as f64 / 1e3;
    let mut line = format!(
        "slow request: {name} v{} from {} took {:.3} ms (",
        answered.version,
        info.peer.address,
        millis(split.total)
    );
    for ((.., stage), micros) in STAGES.iter().zip(split.stages) {
        line.push_str(&format!("{stage} {:.3}, ", millis(micros)));
    }
    let client_id = info.client_id.borrow();
    line.push_str(&format!(
        "client id {:?}, {}, listener {})",
        client_id.as_deref().unwrap_or(""),
        info.principal,
        info.peer.listener
    ));
    shared.log.line(LogLevel::Warning, &line);
}
