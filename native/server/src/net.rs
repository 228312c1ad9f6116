//! Bytes between sockets and requests: buffers, frames, TLS, wake-ups. These modules do not decode requests.

pub(crate) mod budget;
pub(crate) mod buffers;
pub(crate) mod frame;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod reply;
pub mod tls;
pub(crate) mod wakeups;
