//! Everything of the broker that has a socket.
//!
//! The way of a request: `listener` accepts and hands the connection to one of N single-threaded runtimes
//! (`threads`) → `connection` takes turns → `incoming` makes frames → `dispatch` takes the key → a file of `api/`
//! answers from `replica` and `metadata_view`, or `control_plane` hands it to Python → `slots` put replies in request
//! order → `outgoing` sends them.

mod access;
mod api;
pub mod authorizer;
mod budget;
mod buffers;
mod close;
mod cold_reads;
pub mod config;
mod connection;
pub mod control_plane;
mod dispatch;
pub mod error_codes;
mod fetch_sessions;
mod frame;
mod incoming;
pub mod limits;
mod listener;
pub mod metadata_view;
mod metrics;
mod os;
mod outgoing;
mod producers;
mod reply;
mod sasl;
mod server;
mod shared;
mod slots;
mod slow_appends;
mod threads;

pub use server::{Server, StartError};
