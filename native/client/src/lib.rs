//! Connections to brokers: framing, versions, login, TLS, metadata. Calls block; concurrent requests need one thread
//! each.
//!
//! [`Connection`] is one connection to one broker, with requests and responses in order; a follower that fetches from
//! its leader needs only this. [`Client`] knows a whole cluster and keeps a connection to each broker it uses. The
//! [`Registry`] in the settings selects the wire layouts: those of clients or those among brokers. The caller encodes
//! and decodes the bodies of requests and responses.

mod cluster;
mod connection;
mod error;
mod settings;
#[cfg(any(test, feature = "test-broker"))]
pub mod test_broker;
#[cfg(test)]
mod tests;

pub use cluster::{Client, Node, Topic, host_and_port};
pub use connection::{Closer, Connection, InFlight};
pub use error::{Error, Result};
pub use pybroker_protocol::codec::Registry;
pub use settings::{
    AllowedValues, ClientSettings, ConnectionSettings, INT_MAX, KeyText, ReachedBrokers, Sasl,
    SecurityProtocol, Setting, Software, StoreFile, Tls, Values,
};
