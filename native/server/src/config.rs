//! What a server is started with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use pybroker_protocol::codec::Registry;

use crate::limits::Limits;
use crate::tls::TlsListener;

/// How a listener secures its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither encryption nor authentication.
    Plaintext,
    /// Authentication by SASL, no encryption: until a client has authenticated its requests are small
    /// ([`Limits::unauthenticated_request_bytes_max`]).
    SaslPlaintext,
    /// Encryption, and what clients' certificates say about them.
    Ssl,
    /// Encryption, and authentication by SASL.
    SaslSsl,
}

impl SecurityProtocol {
    /// Kafka's name.
    pub const fn name(self) -> &'static str {
        match self {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
            SecurityProtocol::Ssl => "SSL",
            SecurityProtocol::SaslSsl => "SASL_SSL",
        }
    }

    /// Clients have to log in.
    pub const fn has_sasl(self) -> bool {
        matches!(
            self,
            SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl
        )
    }
}

/// One listening socket.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Its name in `listeners`.
    pub name: Arc<str>,
    /// Where to bind; port 0 = any free port.
    pub address: SocketAddr,
    /// How connections are secured.
    pub security: SecurityProtocol,
    /// What it shows and whom it trusts, with [`SecurityProtocol::Ssl`] and [`SecurityProtocol::SaslSsl`].
    pub tls: Option<TlsListener>,
    /// Which requests it serves, and in which layouts: chosen by listener, never by looking at the bytes.
    pub registry: Registry,
}

/// Settings that can change while the server runs; requests load them once.
#[derive(Debug, Clone)]
pub struct DynamicSettings {
    /// `auto.create.topics.enable`: an unknown topic in a Metadata request goes to the control plane.
    pub auto_create_topics: bool,
    /// `inter.broker.protocol.version` is 2.8 or later: clients see topic ids.
    pub topic_ids: bool,
    /// `replica.selector.class`: consumers are told which replica is in their rack (KIP-392).
    pub rack_aware: bool,
    /// Limits of connections and memory.
    pub limits: Limits,
    /// How much /metrics shows.
    pub metrics: MetricsLimits,
    /// `slow.request.log.ms`: requests that take so long get a line in the log; `None`: none does.
    pub slow_request: Option<Duration>,
}

/// How many series /metrics has at most, of what there may be many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsLimits {
    /// `metrics.topics.max`.
    pub topics_max: usize,
    /// `metrics.partitions.max`.
    pub partitions_max: usize,
    /// `metrics.clients.max`: names and versions of client software.
    pub clients_max: usize,
}

impl Default for MetricsLimits {
    fn default() -> Self {
        MetricsLimits {
            topics_max: 1_000,
            partitions_max: 10_000,
            clients_max: 100,
        }
    }
}

impl Default for DynamicSettings {
    fn default() -> Self {
        DynamicSettings {
            auto_create_topics: true,
            topic_ids: true,
            rack_aware: false,
            limits: Limits::default(),
            metrics: MetricsLimits::default(),
            slow_request: None,
        }
    }
}

/// How loud a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Normal life.
    Info,
    /// Somebody should look.
    Warning,
    /// Something is lost or refused for good.
    Error,
}

/// Where lines for the log go. Called on data threads: must not block.
pub type LogSink = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// What a server is started with.
#[derive(Clone)]
pub struct ServerConfig {
    /// This broker's id.
    pub broker_id: i32,
    /// The sockets to listen on.
    pub listeners: Vec<ListenerConfig>,
    /// `num.network.threads`: data threads, each with its own runtime and share of the connections.
    pub threads: usize,
    /// Settings at the start.
    pub settings: DynamicSettings,
    /// Where lines for the log go.
    pub log: LogSink,
}

impl core::fmt::Debug for ServerConfig {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("ServerConfig")
            .field("broker_id", &self.broker_id)
            .field("listeners", &self.listeners)
            .field("threads", &self.threads)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Data threads for a machine with this many cores: cores up to 2, then cores − 1, at most 8. The control plane needs
/// a core, and beyond eight the network is full.
pub fn default_threads(cores: usize) -> usize {
    match cores {
        0 | 1 => 1,
        2 => 2,
        more => (more - 1).min(8),
    }
}
