//! The quorum of the metadata log: KIP-595's Raft in which followers fetch, with pre-vote (KIP-996), check-quorum and
//! voter changes one at a time (KIP-853).
//!
//! It uses no clock, thread, socket or file: events go in ([`Event`]: a message came, time passed, a write is on disk)
//! and actions come out ([`Action`]: send, append, flush, truncate, commit). The owner executes the actions in order.
//!
//! | role | is | leaves it |
//! |---|---|---|
//! | Unattached | without a leader; asks nodes in turn for one | → Follower: leader found; → Prospective: timed out |
//! | Prospective | asking for pre-votes | → Candidate: won; → Follower or Unattached: lost; → Unattached: voted |
//! | Candidate | asking for votes, its own is on disk | → Leader: won; → Prospective: lost or timed out |
//! | Leader | appending and answering fetches | → Resigned: quorum lost, removed, asked |
//! | Follower | fetching | → Prospective: timed out, preferred; → Unattached: leader resigned or refused |
//! | Resigned | a leader of this epoch that leads no more | → Prospective: timed out; → Unattached: timed out, no voter
//! |
//! | Halted | stopped by a storage error | never |
//!
//! From every role but Halted: a higher epoch → Unattached, or Follower if its leader is named; a storage error →
//! Halted. An observer is Unattached or Follower. The only voter of a cluster goes to Candidate without pre-votes.
//!
//! Rules of durability: no message is sent while a write of the quorum state is pending, so votes and epochs are on
//! disk before another node can learn of them; a fetch claims only flushed records; a leader counts only records that
//! it has flushed. A record is committed when it is on the disks of a majority of voters, but not before a record of
//! the leader's own epoch is.

mod action;
mod batch;
mod election;
mod fault;
mod follower;
mod inspection;
mod invariants;
mod keys;
mod leader;
mod log_index;
mod message;
mod outputs;
mod quorum;
mod random;
mod role;
mod settings;
mod state;
mod transition;
mod transitions;
mod voters;

pub use action::{Action, Decision, Event, Refusal};
pub use batch::{Batch, Body, EpochEnd, Snapshot, SnapshotHeader};
#[cfg(feature = "planted")]
pub use fault::Fault;
pub use keys::{ReplicaKey, VoterSet};
pub use log_index::LogIndex;
pub use message::{Answer, Ask, Error, FetchResult, Request, Response};
pub use quorum::{Quorum, ReplicaProgress};
pub use settings::{Settings, Timeouts};
pub use state::QuorumState;
pub use transition::{Cause, RoleName, Transition};
