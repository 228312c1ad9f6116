//! Kafka's wire format: bytes in and bytes out. No sockets, no clock, no Python.

pub mod api_key;
pub mod error_code;

pub use api_key::{Api, ApiKey, Plane};
pub use error_code::ErrorCode;
