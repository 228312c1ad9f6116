//! One file per API key that the data plane answers by itself.

pub(crate) mod k00_produce;
pub(crate) mod k01_fetch;
pub(crate) mod k02_list_offsets;
pub(crate) mod k03_metadata;
pub(crate) mod k18_api_versions;
pub(crate) mod k23_offset_for_leader_epoch;
pub(crate) mod k32142_list_topics;
pub(crate) mod k32151_ingest_append;
mod partitions;
pub(crate) use partitions::ResolvedTopic;
pub(crate) mod to_control_plane;

use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use pybroker_protocol::primitives::DecodeError;

use crate::access::Access;
use crate::close::CloseReason;
use crate::shared::{ConnectionInfo, Shared, ThreadState};
use crate::slots::Slot;

/// A request about to be answered.
pub(crate) struct Call<'a, 'c> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) thread: &'a mut ThreadState,
    pub(crate) connection: &'a ConnectionInfo,
    /// The task of the connection: who waits.
    pub(crate) context: &'a mut Context<'c>,
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// The version has compact lengths, tagged fields and response header v1.
    pub(crate) flexible: bool,
    pub(crate) client_id: Option<&'a str>,
    /// When the frame was complete.
    pub(crate) received: Instant,
    /// Wall clock, milliseconds.
    pub(crate) now_ms: i64,
}

impl<'a> Call<'a, '_> {
    /// What the client may do with topics.
    #[inline]
    pub(crate) fn access(&self) -> Access<'a> {
        Access::new(self.shared, self.connection)
    }

    /// The reason to close for a body that is not this request.
    pub(crate) fn bad_request(&self, error: DecodeError) -> CloseReason {
        CloseReason::BadRequest {
            api_key: self.api_key,
            api_version: self.version,
            error,
        }
    }
}

/// What became of a request.
pub(crate) enum Answer {
    /// The whole reply frame was appended to the output.
    Written,
    /// There is no reply (acks=0).
    Silent,
    /// The reply comes later.
    Later(Slot),
}
