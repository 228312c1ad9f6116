//! Answers that the control plane lets the data threads give until it revokes them.

pub mod cached_responses;
pub mod delegated_commits;
