//! Handlers of the API keys that the data plane answers itself, one file per key.

pub(crate) mod cached_response;
mod call;
mod each_partition;
pub(crate) mod k00_produce;
pub(crate) mod k01_fetch;
pub(crate) mod k02_list_offsets;
pub(crate) mod k03_metadata;
pub(crate) mod k08_offset_commit;
pub(crate) mod k18_api_versions;
pub(crate) mod k23_offset_for_leader_epoch;
pub(crate) mod k32142_list_topics;
pub(crate) mod k32151_ingest_append;
pub(crate) mod large_request;
pub(crate) mod pool_answer;
pub(crate) mod to_control_plane;
pub(crate) mod topic_access;
pub(crate) mod topic_lookup;
pub(crate) mod unauthenticated;

pub(crate) use call::{Answer, Call};
