//! Configuration of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use pybroker_protocol::codec::Registry;
pub use pybroker_protocol::served::ClusterKind;

use crate::limits::Limits;
use crate::net::tls::TlsListener;

/// How a listener secures its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither encryption nor authentication.
    Plaintext,
    /// SASL authentication without encryption. Requests are small until the client has authenticated
    /// ([`Limits::unauthenticated_request_bytes_max`]).
    SaslPlaintext,
    /// TLS, optionally with client certificates.
    Ssl,
    /// TLS and SASL authentication.
    SaslSsl,
}

impl SecurityProtocol {
    /// Return Kafka's name of the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
            SecurityProtocol::Ssl => "SSL",
            SecurityProtocol::SaslSsl => "SASL_SSL",
        }
    }

    /// Return whether clients must authenticate by SASL.
    pub const fn has_sasl(self) -> bool {
        matches!(
            self,
            SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl
        )
    }
}

/// A listening socket.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Name in `listeners`.
    pub name: Arc<str>,
    /// Address to bind; port 0 = any free port.
    pub address: SocketAddr,
    /// Security protocol of the connections.
    pub security: SecurityProtocol,
    /// Certificate and trusted authorities, with [`SecurityProtocol::Ssl`] and [`SecurityProtocol::SaslSsl`].
    pub tls: Option<TlsListener>,
    /// The APIs and wire layouts that the listener serves: chosen by listener, never by inspecting bytes.
    pub registry: Registry,
}

/// Settings that can change at run time. Each request loads them once.
#[derive(Debug, Clone)]
pub struct DynamicSettings {
    /// `auto.create.topics.enable`: Metadata requests for unknown topics go to the control plane.
    pub auto_create_topics: bool,
    /// Properties of the cluster on which the served versions depend.
    pub cluster: ClusterKind,
    /// `replica.selector.class`: whether responses name the replica in the consumer's rack (KIP-392).
    pub rack_aware: bool,
    /// Limits of connections and memory.
    pub limits: Limits,
    /// Limits of the size of /metrics.
    pub metrics: MetricsLimits,
    /// `slow.request.log.ms`: requests that take at least this long are logged; `None`: no request is logged.
    pub slow_request: Option<Duration>,
}

/// Maximum number of series in /metrics for unbounded labels.
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
            cluster: ClusterKind {
                topic_ids: true,
                quorum: false,
            },
            rack_aware: false,
            limits: Limits::default(),
            metrics: MetricsLimits::default(),
            slow_request: None,
        }
    }
}

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Normal operation.
    Info,
    /// An operator should investigate.
    Warning,
    /// Data is lost or an operation failed permanently.
    Error,
}

/// Destination of log lines. Called on data threads: must not block.
pub type LogSink = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Configuration of a server at its start.
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
    /// Destination of log lines.
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

/// Return the default number of data threads: cores up to 2, then cores − 1, at most 8. The control plane needs a core,
/// and eight threads saturate the network.
pub fn default_threads(cores: usize) -> usize {
    match cores {
        0 | 1 => 1,
        2 => 2,
        more => (more - 1).min(8),
    }
}
