//! A node of the metadata quorum: the state machine of `pybroker-quorum` on the log of `pybroker-metadata-log`, driven
//! by two threads. The owner passes received messages in, sends the outgoing ones, proposes records, and applies
//! committed records.
//!
//! ```text
//!   owner ── receive, propose ──► queue ──► node thread ── flushes, writes of the state ──► disk thread
//!     ▲                                      │    ▲                                             │
//!     └────── outbox: messages, commits ─────┘    └────────────────── done ─────────────────────┘
//! ```
//! The node thread writes to the page cache and reads; only the disk thread syncs, with rare exceptions: rolling a
//! segment, truncating, and installing a snapshot sync on the node thread.
//!
//! The owner gets, in this order: the image of the latest snapshot, then each committed batch. If this node lagged too
//! far, a snapshot replaces the image. The owner gets the outcome of a proposal after the proposal's records. When
//! this node becomes leader, the owner first gets all records of earlier epochs, so that it decides on the whole image.
//!
//! | module | content |
//! |---|---|
//! | `wire` | messages as Kafka requests and responses |
//! | `clock` | the clocks that the owner supplies |
//! | `output`, `outbox` | outputs for the owner |
//! | `disk` | the disk thread |
//! | `delivery` | committed records in order |
//! | `addresses`, `settings`, `status` | the nodes' addresses, this node's settings, its view of the quorum |
//! | `topic_id` | the metadata topic's id for other threads |
//! | `inbox`, `driver`, `node` | the input queue, the handling of inputs, the node's threads |

mod addresses;
mod clock;
mod delivery;
mod disk;
mod driver;
mod inbox;
mod node;
mod outbox;
mod output;
mod settings;
mod status;
mod topic_id;
mod wire;

pub use clock::Clock;
pub use node::{Node, OpenError, SnapshotTask};
pub use output::{Outcome, Output};
pub use settings::{FETCH_BYTES_MAX, NodeSettings};
pub use status::{NodeStatus, ReplicaStatus};
pub use topic_id::TopicIdCell;
pub use wire::{Api, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, VOTE, WireError};
