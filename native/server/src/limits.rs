//! All limits on the resources and work that clients can cause in this server, with their reasons.

use std::time::Duration;

use hashbrown::HashMap;

/// Limits that an operator sets. They have Kafka's names where Kafka has such a setting.
#[derive(Debug, Clone)]
pub struct Limits {
    /// `socket.request.max.bytes`: a larger frame is refused before any of it is stored.
    pub request_bytes_max: usize,
    /// `sasl.server.max.receive.size`: the same limit on SASL listeners before authentication.
    pub unauthenticated_request_bytes_max: usize,
    /// `max.connections`: for all client listeners together, and again for the inter-broker listener.
    pub connections_max: usize,
    /// `max.connections.per.ip`.
    pub connections_per_ip_max: usize,
    /// `max.connections.per.ip.overrides`: by address text.
    pub connections_per_ip_overrides: HashMap<std::net::IpAddr, usize>,
    /// `max.connection.creation.rate`: new connections a second on this broker; 0 means no limit.
    pub connection_creation_rate: u32,
    /// Limits of new connections a second on single listeners, by name; other listeners have none.
    pub connection_creation_rates: HashMap<String, u32>,
    /// `connections.max.idle.ms`: for a connection without finished requests, replies in progress or arriving bytes.
    pub idle: Duration,
    /// `connection.authentication.timeout.ms`: time in which a client of a SASL listener must authenticate.
    pub authentication: Duration,
    /// Maximum time without new bytes of an incomplete frame. Half-open peers, and senders of a byte a minute, must not
    /// hold memory.
    pub frame_stall: Duration,
    /// Maximum time without progress of a reply before the connection closes.
    pub write_stall: Duration,
    /// `queued.max.request.bytes`: memory of incomplete or queued frames of all connections.
    pub in_flight_bytes_max: usize,
    /// Memory of incomplete or queued frames of one connection (one complete frame is always allowed, up to
    /// `request_bytes_max`).
    pub in_flight_connection_bytes_max: usize,
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_sessions_max: usize,
    /// `fetch.max.bytes`: maximum size of a Fetch response.
    pub fetch_bytes_max: i32,
    /// `socket.listen.backlog.size`: connections that the kernel completes before they are accepted. Read once, when a
    /// listener is bound.
    pub listen_backlog: i32,
    /// `socket.send.buffer.bytes` of accepted connections. `None` means that the kernel chooses.
    pub socket_send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; set on the listening socket, because the window is negotiated when a connection
    /// opens. `None` means that the kernel chooses.
    pub socket_receive_buffer_bytes: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_bytes_max: 100 * 1024 * 1024,
            unauthenticated_request_bytes_max: 64 * 1024,
            connections_max: 10_000,
            connections_per_ip_max: 10_000,
            connections_per_ip_overrides: HashMap::new(),
            connection_creation_rate: 0,
            connection_creation_rates: HashMap::new(),
            idle: Duration::from_secs(600),
            authentication: Duration::from_secs(10),
            frame_stall: Duration::from_secs(30),
            write_stall: Duration::from_secs(60),
            in_flight_bytes_max: 512 * 1024 * 1024,
            in_flight_connection_bytes_max: 16 * 1024 * 1024,
            fetch_sessions_max: 1_000,
            fetch_bytes_max: 55 * 1024 * 1024,
            listen_backlog: 1024,
            socket_send_buffer_bytes: None,
            socket_receive_buffer_bytes: None,
        }
    }
}

/// Maximum bytes of an incomplete TLS message. rustls reassembles only handshake messages, and a client's certificate
/// chain takes a few kilobytes.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// Delay before the connection closes after its last reply. kafka-python (seen in 3.0) ignores a reply that arrives
/// together with the close, and would retry a wrong password forever.
pub(crate) const LAST_REPLY_LINGER: Duration = Duration::from_millis(200);

/// Maximum elements of a request that is decoded before authentication in order to refuse it.
pub(crate) const UNAUTHENTICATED_ELEMENTS_MAX: u32 = 1_000;

/// Maximum number of requests of one connection that are read but not answered. librdkafka can have up to 1,000 in
/// flight (max.in.flight.requests.per.connection × batches is far below that in practice), the Java producer 5.
pub(crate) const SLOTS_MAX: usize = 128;

/// Look-ups by time, or staged appends, that are queued for their pool, for all connections together: enough to keep
/// the pool busy. Each connection may have one more request that waits for room in the queue. The connection counts
/// that request's memory, and drops it when it closes.
pub(crate) const POOL_WORK_WAITING_MAX: usize = 64;

/// Maximum wait of ListOffsets for a flush in progress, after which records acknowledged with acks=1 are visible. With
/// a slower disk, the answer may not include them.
pub(crate) const FLUSH_WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum number of partitions in all fetch sessions of one data thread, about 300 bytes each. Beyond it, a fetch that
/// requests a session gets none.
pub(crate) const FETCH_SESSION_PARTITIONS_MAX: usize = 500_000;

/// Bytes of finished replies above which the broker stops reading from a connection until its peer has taken them.
pub(crate) const PENDING_REPLY_BYTES_MAX: usize = 256 * 1024;

/// Maximum bytes that one connection processes in one turn of its thread. After this limit or [`TURN_REQUESTS_MAX`] it
/// yields to other connections.
pub(crate) const TURN_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum number of requests that one connection processes in one turn.
pub(crate) const TURN_REQUESTS_MAX: usize = 32;
/// Maximum number of bytes that one turn decompresses: five to fifteen milliseconds of a data thread, during which its
/// other connections wait. Another thread processes larger requests.
pub(crate) const TURN_EXPANDED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Size above which another thread answers a request that names topics. A request of this size has at most ten thousand
/// elements and takes about five milliseconds of a data thread.
pub(crate) const LARGE_REQUEST_BYTES: usize = 32 * 1024;
/// Maximum number of bytes that one turn sends with sendfile.
pub(crate) const TURN_SEND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Minimum bytes of a partition's records for sendfile. Smaller records are read into the reply, which saves system
/// calls with many partitions.
///
/// Measured CPU per reply on loopback, sendfile against reading: one piece of 18 KiB 20 against 21 µs, of 32 KiB 18
/// against 20 µs, of 96 KiB 21 against 35 µs; sixteen pieces of 32 KiB 94 against 166 µs.
pub(crate) const SENDFILE_BYTES_MIN: usize = 16 * 1024;
