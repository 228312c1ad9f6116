//! Everything of the broker that is asked over a socket.
//!
//! The way of a request: `listener` accepts and hands the connection to one of N single-threaded runtimes
//! (`threads`) → `connection` takes turns → `incoming` makes frames → `dispatch` takes the key → a file of `api/`
//! answers from `replica` and `metadata_view`, or `control_plane` hands it to Python → `slots` put replies in request
//! order → `outgoing` sends them.
//!
//! Floors, from the top down; a module imports from those below it:
//!
//! | floor | modules |
//! |---|---|
//! | the server | `server`, `listener`, `threads` |
//! | a connection's turns | `connection`, `dispatch`, `slots` |
//! | what requests mean | `api`, `sasl` |
//! | whom and what they mean | `access`, `resolve` |
//! | what they share | `shared`, `connection_info`, `connection_quotas` |
//! | work elsewhere | `cold_reads`, `slow_appends`, `workers` |
//! | parts | `incoming`, `outgoing`, `frame`, `reply`, `close`, `budget`, `buffers`, `fetch_sessions`, `metrics`, `prometheus`, `producers`, `standing`, `standing_commits`, `throttle_place`, `tls`, … |
//! | words | `authorizer`, `quotas`, `metadata_view`, `control_plane`, `error_codes`, `config`, `limits`, `os` |

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
