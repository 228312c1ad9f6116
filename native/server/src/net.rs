//! Bytes between socket and requests: buffers, frames, TLS, wake-ups. Knows no request.

pub(crate) mod budget;
pub(crate) mod buffers;
pub(crate) mod frame;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod reply;
pub mod tls;
pub(crate) mod wakeups;
