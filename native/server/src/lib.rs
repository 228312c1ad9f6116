//! The socket server of the broker.
//!
//! Path of a request: `listener` accepts and hands the connection to one of N single-threaded runtimes (`threads`) →
//! `connection` takes turns → `incoming` finds frames → `dispatch` matches the key → a file of `api/` answers from
//! `replica` and `metadata_view`, or `control_plane` forwards it to Python → `slots` order the replies → `outgoing`
//! sends them.
//!
//! Layers, from the top down; a module imports from those below it:
//!
//! | layer | modules |
//! |---|---|
//! | the server | `server`, `listener`, `threads` |
//! | a connection's turns | `connection`, `dispatch`, `slots` |
//! | handlers of requests | `api`, `sasl` |
//! | authorization and look-up | `access`, `resolve` |
//! | shared state | `shared`, `connection_info`, `connection_quotas` |
//! | work on other threads | `cold_reads`, `slow_appends`, `workers` |
//! | components | `incoming`, `outgoing`, `frame`, `reply`, `close`, `budget`, `buffers`, `fetch_sessions`, `metrics`, `prometheus`, `producers`, `standing`, `standing_commits`, `throttle_place`, `tls`, … |
//! | basic types | `authorizer`, `quotas`, `metadata_view`, `control_plane`, `error_codes`, `config`, `limits`, `os` |

mod api;
pub mod authorizer;
mod blocking;
mod clients;
pub mod clock;
pub mod config;
mod connections;
pub mod control_plane;
mod dispatch;
pub mod error_codes;
mod fetch_sessions;
mod flush_group;
mod leases;
pub mod limits;
pub mod metadata_view;
mod metrics;
mod net;
mod os;
mod prometheus;
pub mod quotas;
mod server;
mod shared;
mod throttled_log;

pub use blocking::cold_reads;
pub use leases::{cached_responses, delegated_commits};
pub use metrics::slow_requests;
pub use net::tls;
pub use prometheus::exposition;
pub use server::{Server, StartError};
