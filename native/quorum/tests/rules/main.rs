//! Rules of a single replica, each tested with as few events as possible.

mod elections;
mod replica;
mod replication;
mod topic_id;
mod voters;
