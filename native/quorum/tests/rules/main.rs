//! Rules that one replica keeps, each with as few events as it takes.

mod elections;
mod replica;
mod replication;
mod topic_id;
mod voters;
