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

mod access;
mod api;
pub mod authorizer;
mod budget;
mod buffers;
mod client_software;
pub mod clock;
mod close;
pub mod cold_reads;
pub mod config;
mod connection;
mod connection_counts;
mod connection_info;
mod connection_quotas;
pub mod control_plane;
mod decisions;
mod dispatch;
pub mod error_codes;
pub mod exposition;
mod fetch_sessions;
mod flush_group;
mod frame;
mod incoming;
pub mod limits;
mod listener;
pub mod metadata_view;
mod metrics;
mod os;
mod outgoing;
mod producers;
mod prometheus;
pub mod quotas;
mod reply;
mod resolve;
mod sasl;
mod server;
mod shared;
mod slots;
mod slow_appends;
pub mod slow_requests;
pub mod standing;
pub mod standing_commits;
mod threads;
mod throttle_place;
mod throttled_log;
pub mod tls;
mod wakeups;
mod workers;

pub use server::{Server, StartError};
