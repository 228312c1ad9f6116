//! Settings of fetchers under Kafka's names.

use std::time::Duration;

/// Settings of all fetchers, with Kafka's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetcherSettings {
    /// `num.replica.fetchers`: threads for each leader; a partition stays on one of them.
    pub threads: u32,
    /// `replica.fetch.wait.max.ms`: how long a leader waits for `min_bytes`.
    pub wait_max: Duration,
    /// `replica.fetch.min.bytes`.
    pub min_bytes: i32,
    /// `replica.fetch.max.bytes`: maximum bytes of one partition in one response. A larger batch is sent alone.
    pub partition_bytes_max: i32,
    /// `replica.fetch.response.max.bytes`.
    pub response_bytes_max: i32,
    /// `replica.fetch.backoff.ms`: the longest pause of a partition after an error. The first pause is short, because
    /// usually the leader does not know yet that it leads.
    pub backoff: Duration,
    /// `replica.socket.timeout.ms`: response timeout. It is at least as long as the leader may hold a request.
    pub socket_timeout: Duration,
    /// Whether `inter.broker.protocol.version` is 2.8 or later, so that requests use topic ids for leaders that know
    /// them.
    pub topic_ids: bool,
}

impl Default for FetcherSettings {
    fn default() -> Self {
        Self {
            threads: 1,
            wait_max: Duration::from_millis(500),
            min_bytes: 1,
            partition_bytes_max: 1024 * 1024,
            response_bytes_max: 10 * 1024 * 1024,
            backoff: Duration::from_secs(1),
            socket_timeout: Duration::from_secs(30),
            topic_ids: true,
        }
    }
}
