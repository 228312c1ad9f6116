//! Everything of the broker that has a socket.
//!
//! The way of a request: `listener` accepts and hands the connection to one of N single-threaded runtimes →
//! `connection` reads frames → `dispatch` takes the key → a file of `api/` answers from `replica` and
//! `metadata_view`, or `control_plane` hands it to Python → the connection's slots put the reply in request order →
//! `outgoing` writes it.

pub mod config;
pub mod control_plane;
pub mod limits;
pub mod metadata_view;
