//! Hand-written codecs of the messages that the data plane answers. They do not allocate for each field, or copy names
//! or records. The schema interpreter handles all other messages; a test compares the two.
//!
//! Decoding rejects all bytes that are not exactly one message, including remaining bytes, and never panics. The
//! partitions of large messages are in one flat vector, which the caller reuses.

pub mod api_versions;
pub mod fetch_request;
pub mod fetch_response;
pub mod ingest_append;
pub mod list_offsets;
pub mod list_topics;
pub mod metadata;
pub mod of_topic;
pub mod offset_commit;
pub mod offset_for_leader_epoch;
pub mod produce_request;
pub mod produce_response;
pub mod stored_offset;
#[cfg(test)]
mod tests;
mod wire_version;

pub use wire_version::WireVersion;

use crate::primitives::{DecodeError, Reader, Writer};

/// Leader of a partition, in the tagged fields of KIP-320 and KIP-951.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderIdAndEpoch {
    /// Broker id.
    pub leader_id: i32,
    /// Leader epoch.
    pub leader_epoch: i32,
}

/// Address of a broker that a [`LeaderIdAndEpoch`] names (KIP-951).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeEndpoint<'a> {
    /// Broker id.
    pub node_id: i32,
    /// Advertised host.
    pub host: &'a str,
    /// Advertised port.
    pub port: i32,
    /// `broker.rack`.
    pub rack: Option<&'a str>,
}

impl LeaderIdAndEpoch {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let leader = LeaderIdAndEpoch {
            leader_id: reader.i32()?,
            leader_epoch: reader.i32()?,
        };
        reader.skip_tags(true)?;
        Ok(leader)
    }

    fn write(self, writer: &mut Writer<'_>) {
        writer.i32(self.leader_id);
        writer.i32(self.leader_epoch);
        writer.no_tags();
    }
}

fn read_endpoints<'a>(reader: &mut Reader<'a>) -> Result<Vec<NodeEndpoint<'a>>, DecodeError> {
    let count = reader.array_len(true, 11)?;
    let mut endpoints = Vec::with_capacity(count);
    for _ in 0..count {
        endpoints.push(NodeEndpoint {
            node_id: reader.i32()?,
            host: reader.string(true)?,
            port: reader.i32()?,
            rack: reader.nullable_string(true)?,
        });
        reader.skip_tags(true)?;
    }
    Ok(endpoints)
}

/// Write the tagged section at the end of Produce and Fetch responses: node endpoints, if there are any.
fn write_endpoints_section(writer: &mut Writer<'_>, tag: u32, endpoints: &[NodeEndpoint<'_>]) {
    if endpoints.is_empty() {
        return writer.no_tags();
    }
    writer.tag_count(1);
    writer.tag(tag, |writer| {
        writer.array_len(endpoints.len());
        for endpoint in endpoints {
            writer.i32(endpoint.node_id);
            writer.string(endpoint.host);
            writer.i32(endpoint.port);
            writer.nullable_string(endpoint.rack);
            writer.no_tags();
        }
    });
}

/// Reject versions that a message does not have.
fn check_version(
    version: i16,
    versions: core::ops::RangeInclusive<i16>,
) -> Result<(), DecodeError> {
    if versions.contains(&version) {
        Ok(())
    } else {
        Err(DecodeError::UnsupportedVersion)
    }
}
