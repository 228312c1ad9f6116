//! Connections to brokers: framing, versions, login, TLS, who leads what. Blocking; whoever needs several at a time has
//! a thread for each.
//!
//! [`Connection`] is one connection to one broker: requests out, responses in, in order; a follower that fetches from
//! its leader needs no more. [`Client`] knows a whole cluster and keeps a connection to each broker it is asked about.
//! Which layouts are spoken, those of clients or those of brokers among themselves, says the [`Registry`] in the
//! settings. Nothing here knows what the requests are about.

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
    Allowed, Answered, ClientSettings, ConnectionSettings, INT_MAX, KeyText, Sasl,
    SecurityProtocol, Setting, Software, StoreFile, Tls, Values,
};
