//! The socket server of the broker.
//!
//! Path of a request: `connections/listener` accepts and hands the connection to one of N single-threaded runtimes
//! (`connections/data_threads`) → `connections/connection` takes turns → `net/incoming` finds frames → `dispatch`
//! matches the key → a file of `api/` answers from `replica` and `metadata_view`, or `control_plane` forwards it to
//! Python → `dispatch/slots` order the replies → `net/outgoing` sends them.
//!
//! Layers, from the top down; a module imports only modules of lower layers:
//!
//! | layer | modules |
//! |---|---|
//! | the server | `server`: start, stop, queries and changes at run time |
//! | `connections/` | listeners, data threads, the task of each connection |
//! | `prometheus/` | the metrics page |
//! | `dispatch/` | from a frame to its handler, SASL, replies in order |
//! | `api/` | handlers of requests, one file per API key; look-up and authorization of the topics that they name |
//! | state | `shared`: of the server and of one data thread; `fetch_sessions`, `flush_group`, `throttled_log` |
//! | `clients/` | data about connections: identity, counts, software, reasons to close |
//! | views | `metadata_view`, `config`, `control_plane` |
//! | `leases/` | cached responses and delegated commits of the control plane |
//! | `quotas/`, `metrics/`, `authorizer` | client quotas, counters, ACLs |
//! | `blocking/` | disk reads and slow appends on other threads |
//! | `net/` | bytes: buffers, frames, reading, writing, TLS, wake-ups |
//! | basic types | `clock`, `error_codes`, `limits`, `os` |

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
