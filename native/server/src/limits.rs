//! Every number that bounds what clients can make this server hold or do, with its reason.

use std::time::Duration;

use hashbrown::HashMap;

/// Limits that an operator sets; Kafka's names where Kafka has them.
#[derive(Debug, Clone)]
pub struct Limits {
    /// `socket.request.max.bytes`: a frame above is refused before any of it is kept.
    pub request_bytes_max: usize,
    /// `sasl.server.max.receive.size`: the same before authentication, on listeners that authenticate.
    pub unauthenticated_request_bytes_max: usize,
    /// `max.connections`: all listeners for clients together, and as many of brokers.
    pub connections_max: usize,
    /// `max.connections.per.ip`.
    pub connections_per_ip_max: usize,
    /// `max.connections.per.ip.overrides`: by address text.
    pub connections_per_ip_overrides: HashMap<std::net::IpAddr, usize>,
    /// `max.connection.creation.rate`: new connections a second on this broker; 0 = no limit.
    pub connection_creation_rate: u32,
    /// The same of one listener, by its name; those without have no bound of their own.
    pub connection_creation_rates: HashMap<String, u32>,
    /// `connections.max.idle.ms`: a connection without a finished request, a reply in progress or arriving bytes.
    pub idle: Duration,
    /// `connection.authentication.timeout.ms`: a client of a listener with SASL must have proven who it is.
    pub authentication: Duration,
    /// A peer that starts a frame must deliver some of it within this time, again and again, or be closed: half-open
    /// peers and byte-a-minute senders do not keep memory.
    pub frame_stall: Duration,
    /// A peer that takes nothing of a reply for this long is gone.
    pub write_stall: Duration,
    /// `queued.max.request.bytes`: memory held by frames that are incomplete or wait their turn, all connections.
    pub in_flight_bytes_max: usize,
    /// The same for one connection (a complete frame is always allowed, however large `request_bytes_max` lets it be).
    pub in_flight_connection_bytes_max: usize,
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_sessions_max: usize,
    /// `fetch.max.bytes`: the largest Fetch response this broker gives.
    pub fetch_bytes_max: i32,
    /// `socket.listen.backlog.size`: connections that the kernel completes before they are accepted. Read once, when
    /// a listener is bound.
    pub listen_backlog: i32,
    /// `socket.send.buffer.bytes` of accepted connections; `None` leaves the size to the kernel.
    pub socket_send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; set on the listening socket, because the window is agreed on when a connection
    /// is made. `None` leaves the size to the kernel.
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

/// What a client may send of a TLS message that is not whole: rustls joins the pieces of a handshake message only, and
/// a client's certificates with those that they are signed by take a few kilobytes.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// How long a connection stays open after its last reply. kafka-python (seen in 3.0) overlooks a reply that comes with
/// the end of the connection, and would try the wrong password again and again.
pub(crate) const LAST_REPLY_LINGER: Duration = Duration::from_millis(200);

/// Elements that a request may have which is decoded before authentication, to be refused.
pub(crate) const UNAUTHENTICATED_ELEMENTS_MAX: u32 = 1_000;

/// Requests of one connection that were read and not answered. librdkafka has up to 1,000 in flight
/// (max.in.flight.requests.per.connection × batches is far below in practice); the Java producer 5.
pub(crate) const SLOTS_MAX: usize = 128;

/// Look-ups by time, or staged appends, that wait for a thread of their pool, of all connections together: enough to
/// keep it busy. Others wait in their connections, one each, where their memory counts and goes with the connection.
pub(crate) const POOL_WORK_WAITING_MAX: usize = 64;

/// How long a question about a partition's end waits for a flush that is under way: a client that was told "written" is
/// to see what it wrote. A disk that takes longer than this is not waited for, and shows less.
pub(crate) const FLUSH_WAIT_MAX: Duration = Duration::from_secs(5);

/// Partitions that the fetch sessions of one data thread follow together, about 300 bytes each. A fetch that asks for
/// a session beyond it is answered without one.
pub(crate) const FETCH_SESSION_PARTITIONS_MAX: usize = 500_000;

/// Bytes of finished replies above which a connection is not read further until its peer has taken them.
pub(crate) const PENDING_REPLY_BYTES_MAX: usize = 256 * 1024;

/// Work of one connection in one turn of its thread: after either it lets the others run.
pub(crate) const TURN_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Requests of one connection in one turn.
pub(crate) const TURN_REQUESTS_MAX: usize = 32;
/// Bytes to which one turn decompresses records: five to fifteen milliseconds of a data thread, on whom the other
/// connections wait. A request beyond it goes to another thread.
pub(crate) const TURN_EXPANDED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A request that names topics, and has more bytes than this, is answered by another thread: up to here it has ten
/// thousand elements at most, and takes about five milliseconds of a data thread.
pub(crate) const LARGE_REQUEST_BYTES: usize = 32 * 1024;
/// Bytes that one turn hands to the kernel with sendfile.
pub(crate) const TURN_SEND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A partition's records of at least this many bytes go from the page cache to the socket with sendfile; fewer are read
/// into the reply, where one of several partitions needs no system calls of its own to be sent. Measured on loopback
/// without pacing, CPU of a reply with one such piece and of one with sixteen: 18 KiB 20 instead of 21 µs by sendfile,
/// 32 KiB 18 instead of 20 and 94 instead of 166 µs, 96 KiB 21 instead of 35.
pub(crate) const SENDFILE_BYTES_MIN: usize = 16 * 1024;
