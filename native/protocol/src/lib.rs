//! Kafka's wire format: bytes in and bytes out. No sockets, no clock, no Python.

pub mod api_key;
pub mod codec;
pub mod error_code;
pub mod frame;
pub mod header;
pub mod hot;
pub mod primitives;
pub mod served;

pub use api_key::{Api, ApiKey, Plane};
pub use error_code::ErrorCode;
