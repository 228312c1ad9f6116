//! What a handler of an API key is given, and what it gives back.

use std::sync::Arc;
use std::time::Instant;

use pybroker_protocol::codec::{Direction, decode_value, encode_value};
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::primitives::DecodeError;

use crate::access::Access;
use crate::close::CloseReason;
use crate::config::Registry;
use crate::connection_info::ConnectionInfo;
use crate::metrics::Moments;
use crate::reply::ReplyHeader;
use crate::shared::Shared;

/// A request apart from its body: what answering it needs, on whichever thread.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) connection: &'a ConnectionInfo,
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) reply: ReplyHeader,
    pub(crate) client_id: Option<&'a str>,
    /// When the frame was complete.
    pub(crate) received: Instant,
    /// When its turn came.
    pub(crate) began: Instant,
    /// Wall clock, milliseconds.
    pub(crate) now_ms: i64,
    /// How long the client is told to wait before its next request (KIP-219), in milliseconds.
    pub(crate) throttle_time_ms: i32,
}

impl<'a> Call<'a> {
    /// Its version, with the layouts that its listener speaks.
    #[inline]
    pub(crate) fn wire_version(&self) -> WireVersion {
        WireVersion {
            registry: self.connection.peer.registry,
            number: self.version,
        }
    }

    /// When what has happened to it so far.
    #[inline]
    pub(crate) fn moments(&self) -> Moments {
        Moments::new(self.received, self.began)
    }

    /// Whether it came over a listener where brokers talk.
    #[inline]
    pub(crate) fn is_brokers(&self) -> bool {
        self.connection.peer.registry == Registry::InterBroker
    }

    /// What the client may do with topics.
    #[inline]
    pub(crate) fn access(&self) -> Access<'a> {
        Access::new(self.shared, self.connection)
    }

    /// The body with U+FFFD in the place of what is not UTF-8, as Kafka reads it. `None`: it has other faults.
    #[cold]
    pub(crate) fn with_replaced_text(&self, body: &[u8]) -> Option<Vec<u8>> {
        let wire = self.wire_version();
        let message = wire.registry.message(self.api_key, Direction::Request)?;
        let elements_max = wire.registry.elements_max();
        let value = decode_value(message, wire.number, body, elements_max)?.ok()?;
        encode_value(message, wire.number, &value).ok()
    }

    /// The reason to close for a body that is not this request.
    pub(crate) fn bad_request(&self, error: DecodeError) -> CloseReason {
        CloseReason::BadRequest {
            api_key: self.api_key,
            api_version: self.version,
            error,
        }
    }
}

/// What became of a request that may have to wait for something.
pub(crate) enum Answer<P> {
    /// The whole reply frame was appended to the output.
    Written,
    /// There is no reply (acks=0).
    Silent,
    /// The reply comes later.
    Later(Box<P>),
}
