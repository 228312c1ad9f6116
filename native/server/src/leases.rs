//! Answers that the control plane delegates to the data threads until it revokes them.

pub mod cached_responses;
pub mod delegated_commits;
