//! Metadata, versions 0–13, by name and (v10+) by topic id.
//!
//! The handler answers if every named topic exists or must not be created. Otherwise it forwards the whole request to
//! the control plane, which creates topics. As in Kafka, one non-zero id makes the handler ignore all names, and a
//! topic that is requested twice is returned once. An unknown id is UNKNOWN_TOPIC_ID and never creates a topic; before
//! v12 its name is "" (the field is not nullable).
//!
//! Topics that the client may not describe are left out of "all". If named, they are TOPIC_AUTHORIZATION_FAILED with a
//! zero id, whether they exist or not; by id the response has no name, as in Kafka. Without authorizer, all operations
//! are authorized.

use std::borrow::Cow;

use hashbrown::HashSet;
use pybroker_model::{TopicId, Uuid};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::NodeEndpoint;
use pybroker_protocol::hot::metadata::{
    MetadataHead, MetadataPartition, MetadataRequest, MetadataResponseWriter, OPERATIONS_OMITTED,
};

use super::to_control_plane::PendingControl;
use super::{Answer, Call, to_control_plane};
use crate::api::topic_access::Access;
use crate::authorizer::{CLUSTER_NAME, Operation, ResourceType};
use crate::clients::close_reason::CloseReason;
use crate::metadata_view::{MetadataView, PartitionMetadata, TopicMetadata};
use crate::net::reply::ReplyFrame;

/// Maximum length of a topic name, in bytes.
const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Response entry for one requested topic.
enum Entry<'a> {
    Known(&'a TopicMetadata),
    Unknown {
        error: ErrorCode,
        name: Option<&'a str>,
        id: Uuid,
    },
}

/// Answer the request or forward it to the control plane. `auto_create_topics` is the setting, `errors` gets the error
/// codes of the answer.
pub(crate) fn run(
    call: &Call<'_>,
    auto_create_topics: bool,
    body: &[u8],
    out: &mut Vec<u8>,
    errors: &mut Vec<i16>,
) -> Result<Answer<PendingControl>, CloseReason> {
    let body = without_padding_of_librdkafka(body, call.version);
    let request =
        MetadataRequest::decode(body, call.version).map_err(|error| call.bad_request(error))?;
    let view = call.shared.metadata.load();
    let creates = request.allow_auto_topic_creation && auto_create_topics;
    let access = call.access();
    let entries = match entries(&view, &request, creates, &access) {
        Some(entries) => entries,
        None => return Ok(Answer::Later(to_control_plane::submit(call, body))),
    };
    let frame = ReplyFrame::begin(out, call.reply);
    for entry in entries.iter().flatten() {
        if let Entry::Unknown { error, .. } = entry {
            errors.push(error.0);
        }
    }
    write(call, &view, &request, entries.as_deref(), &access, out);
    frame.end(out);
    Ok(Answer::Written)
}

/// Remove padding bytes that librdkafka adds.
///
/// librdkafka (seen in 2.16, `list_topics` without a topic) writes the null array of a flexible version in four bytes
/// instead of one. Kafka ignores the bytes after the message; here they would close the connection. The function
/// accepts exactly this layout; no other request has these seven bytes.
fn without_padding_of_librdkafka(body: &[u8], version: i16) -> &[u8] {
    match body {
        [0, 0, 0, 0, 0 | 1, 0 | 1, 0] if version > 10 => &body[3..],
        _ => body,
    }
}

/// Return the response entries. `Some(None)` means all topics; `None` means that a topic may have to be created.
fn entries<'a>(
    view: &'a MetadataView,
    request: &MetadataRequest<'a>,
    creates: bool,
    access: &Access<'_>,
) -> Option<Option<Vec<Entry<'a>>>> {
    let Some(topics) = &request.topics else {
        return Some(access.is_restricted().then(|| {
            view.topics()
                .filter(|topic| access.lists(&topic.name))
                .map(|topic| Entry::Known(topic))
                .collect()
        }));
    };
    let by_id = topics.iter().any(|topic| topic.topic_id != Uuid::ZERO);
    let mut entries = Vec::with_capacity(topics.len());
    let mut asked = HashSet::new();
    for topic in topics {
        // Return a topic once, as Kafka does. Otherwise each repeated name of a few bytes would return all partitions
        // of the topic again.
        let key = if by_id {
            (topic.topic_id, None)
        } else {
            (Uuid::ZERO, topic.name)
        };
        if topics.len() > 1 && !asked.insert(key) {
            continue;
        }
        let entry = if by_id {
            match TopicId::new(topic.topic_id).and_then(|id| view.topic_by_id(id)) {
                Some(known) if !access.permits(Operation::DESCRIBE, &known.name) => {
                    Entry::Unknown {
                        error: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
                        name: None,
                        id: topic.topic_id,
                    }
                }
                Some(known) => Entry::Known(known),
                // A name in a request that has topic ids is ignored, even if its own id is zero.
                None if topic.topic_id == Uuid::ZERO => continue,
                None => Entry::Unknown {
                    error: ErrorCode::UNKNOWN_TOPIC_ID,
                    name: None,
                    id: topic.topic_id,
                },
            }
        } else {
            match topic.name {
                None => Entry::Unknown {
                    error: ErrorCode::INVALID_TOPIC_EXCEPTION,
                    name: None,
                    id: Uuid::ZERO,
                },
                Some(name) if !access.permits(Operation::DESCRIBE, name) => Entry::Unknown {
                    error: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
                    name: Some(name),
                    id: Uuid::ZERO,
                },
                Some(name) => match view.topic_by_name(name) {
                    Some(known) => Entry::Known(known),
                    None if !name_is_valid(name) => Entry::Unknown {
                        error: ErrorCode::INVALID_TOPIC_EXCEPTION,
                        name: Some(name),
                        id: Uuid::ZERO,
                    },
                    None if creates => return None,
                    None => Entry::Unknown {
                        error: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                        name: Some(name),
                        id: Uuid::ZERO,
                    },
                },
            }
        };
        entries.push(entry);
    }
    Some(Some(entries))
}

fn write(
    call: &Call<'_>,
    view: &MetadataView,
    request: &MetadataRequest<'_>,
    entries: Option<&[Entry<'_>]>,
    access: &Access<'_>,
    out: &mut Vec<u8>,
) {
    let live = live_brokers(view, &call.connection.peer.listener);
    let head = MetadataHead {
        throttle_time_ms: call.throttle_time_ms,
        cluster_id: Some(&view.cluster_id),
        controller_id: view.controller_id,
        brokers: live.clone(),
    };
    let topic_operations = |topic: &TopicMetadata| {
        if request.include_topic_authorized_operations {
            access.operations(ResourceType::TOPIC, &topic.name)
        } else {
            OPERATIONS_OMITTED
        }
    };
    let cluster_operations = if request.include_cluster_authorized_operations {
        if access.permits_on_cluster(Operation::DESCRIBE) {
            access.operations(ResourceType::CLUSTER, CLUSTER_NAME)
        } else {
            0
        }
    } else {
        OPERATIONS_OMITTED
    };
    let count = entries.map_or(view.topics().len(), <[Entry<'_>]>::len);
    let mut writer = MetadataResponseWriter::new(out, call.version, &head, count);
    match entries {
        None => {
            for topic in view.topics() {
                write_topic(&mut writer, &live, topic, topic_operations(topic));
            }
        }
        Some(entries) => {
            for entry in entries {
                match entry {
                    Entry::Known(topic) => {
                        write_topic(&mut writer, &live, topic, topic_operations(topic));
                    }
                    Entry::Unknown { error, name, id } => {
                        writer.topic(error.0, *name, *id, false, 0);
                        writer.end_topic(OPERATIONS_OMITTED);
                    }
                }
            }
        }
    }
    writer.end(cluster_operations, 0);
}

/// Return the live brokers that have an address for the client's listener.
fn live_brokers<'v>(view: &'v MetadataView, listener: &str) -> Vec<NodeEndpoint<'v>> {
    let reachable = |broker: &'v crate::metadata_view::Broker| {
        let endpoint = broker.endpoint(listener)?;
        let rack = broker.rack.as_deref();
        Some(NodeEndpoint {
            node_id: broker.id,
            host: &endpoint.host,
            port: endpoint.port,
            rack,
        })
    };
    view.brokers.iter().filter_map(reachable).collect()
}

fn write_topic(
    writer: &mut MetadataResponseWriter<'_>,
    live: &[NodeEndpoint<'_>],
    topic: &TopicMetadata,
    operations: i32,
) {
    let empty = if topic.partitions.is_empty() {
        ErrorCode::LEADER_NOT_AVAILABLE
    } else {
        ErrorCode::NONE
    };
    writer.topic(
        empty.0,
        Some(&topic.name),
        topic.id.uuid(),
        topic.internal,
        topic.partitions.len(),
    );
    for partition in &topic.partitions {
        writer.partition(&partition_entry(live, partition));
    }
    writer.end_topic(operations);
}

fn partition_entry<'p>(
    live: &[NodeEndpoint<'_>],
    partition: &'p PartitionMetadata,
) -> MetadataPartition<'p> {
    let is_live = |id: i32| {
        live.binary_search_by_key(&id, |broker| broker.node_id)
            .is_ok()
    };
    let leader_is_live = is_live(partition.leader);
    let error = if leader_is_live {
        ErrorCode::NONE
    } else {
        ErrorCode::LEADER_NOT_AVAILABLE
    };
    MetadataPartition {
        error_code: error.0,
        partition: partition.partition,
        leader: if leader_is_live { partition.leader } else { -1 },
        leader_epoch: partition.leader_epoch,
        replicas: Cow::Borrowed(&partition.replicas),
        isr: Cow::Borrowed(&partition.isr),
        offline: offline_replicas(partition, is_live),
    }
}

/// Return the replicas on dead brokers and on failed log directories.
fn offline_replicas(
    partition: &PartitionMetadata,
    is_live: impl Fn(i32) -> bool,
) -> Cow<'_, [i32]> {
    if partition.replicas.iter().all(|&replica| is_live(replica)) {
        return Cow::Borrowed(&partition.offline);
    }
    let replicas = partition.replicas.iter().copied();
    replicas
        .filter(|replica| !is_live(*replica) || partition.offline.contains(replica))
        .collect()
}

/// Return whether the topic name follows Kafka's rules.
fn name_is_valid(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && name.len() <= TOPIC_NAME_BYTES_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_topics_as_librdkafka_asks() {
        for version in 11..=13 {
            let read = |body| {
                let body = without_padding_of_librdkafka(body, version);
                let request = MetadataRequest::decode(body, version).ok()?;
                assert_eq!(request.topics, None);
                Some((
                    request.allow_auto_topic_creation,
                    request.include_topic_authorized_operations,
                ))
            };
            assert_eq!(read(&[0, 0, 0, 0]), Some((false, false)));
            assert_eq!(read(&[0, 1, 1, 0]), Some((true, true)));
            assert_eq!(read(&[0, 0, 0, 0, 1, 0, 0]), Some((true, false)));
            assert_eq!(read(&[0, 0, 0, 0, 1, 0]), None);
            assert_eq!(read(&[0, 0, 0, 0, 1, 0, 0, 0]), None);
            assert_eq!(read(&[0, 0, 0, 0, 2, 0, 0]), None);
        }
        assert_eq!(without_padding_of_librdkafka(&[0; 7], 10), [0; 7]);
    }
}
