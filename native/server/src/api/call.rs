//! Input and output of the handlers of API keys.

use std::sync::Arc;
use std::time::Instant;

use pybroker_protocol::codec::{Direction, decode_value, encode_value};
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::primitives::DecodeError;

use crate::api::topic_access::Access;
use crate::clients::close_reason::CloseReason;
use crate::clients::connection_info::ConnectionInfo;
use crate::config::Registry;
use crate::metrics::Moments;
use crate::net::reply::ReplyHeader;
use crate::shared::ServerState;

/// A request without its body: the data that a thread needs to answer it.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<ServerState>,
    pub(crate) connection: &'a ConnectionInfo,
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) reply: ReplyHeader,
    pub(crate) client_id: Option<&'a str>,
    /// When the last byte of the frame arrived.
    pub(crate) received: Instant,
    /// When the thread started to process the request.
    pub(crate) began: Instant,
    /// Wall clock, in milliseconds since the Unix epoch.
    pub(crate) now_ms: i64,
    /// Throttle time in the response (KIP-219), in milliseconds.
    pub(crate) throttle_time_ms: i32,
}

impl<'a> Call<'a> {
    /// Return the request's version together with the wire layouts of its listener.
    #[inline]
    pub(crate) fn wire_version(&self) -> WireVersion {
        WireVersion {
            registry: self.connection.peer.registry,
            number: self.version,
        }
    }

    /// Return the timestamps of the request up to now.
    #[inline]
    pub(crate) fn moments(&self) -> Moments {
        Moments::new(self.received, self.began)
    }

    /// Return whether the request arrived on an inter-broker listener.
    #[inline]
    pub(crate) fn is_brokers(&self) -> bool {
        self.connection.peer.registry == Registry::InterBroker
    }

    /// Return the authorization of the client.
    #[inline]
    pub(crate) fn access(&self) -> Access<'a> {
        Access::new(self.shared, self.connection)
    }

    /// Return the body with invalid UTF-8 replaced by U+FFFD, as Kafka decodes it. `None` if the body has other faults.
    #[cold]
    pub(crate) fn with_replaced_text(&self, body: &[u8]) -> Option<Vec<u8>> {
        let wire = self.wire_version();
        let message = wire.registry.message(self.api_key, Direction::Request)?;
        let elements_max = wire.registry.elements_max();
        let value = decode_value(message, wire.number, body, elements_max)?.ok()?;
        encode_value(message, wire.number, &value).ok()
    }

    /// Return the reason to close the connection because the body cannot be decoded.
    pub(crate) fn bad_request(&self, error: DecodeError) -> CloseReason {
        CloseReason::BadRequest {
            api_key: self.api_key,
            api_version: self.version,
            error,
        }
    }
}

/// Result of a handler whose request may have to wait.
pub(crate) enum Answer<P> {
    /// The handler appended the whole reply frame to the output.
    Written,
    /// The request has no reply (acks=0).
    Silent,
    /// The reply follows later.
    Later(Box<P>),
}
