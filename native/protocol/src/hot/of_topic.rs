//! Shared code of messages that have data for each partition of some topics (ListOffsets, OffsetForLeaderEpoch).

use pybroker_model::Uuid;

use crate::primitives::{DecodeError, Reader, Writer};

/// Pybroker's own tag for the topic id that a client expects for a topic name (`docs/protocol.md`).
const TOPIC_ID_TAG: u32 = 10_000;

/// How a message names a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    /// By name, on client listeners.
    Name(&'a str),
    /// By id, among brokers. It may be zero, which no topic has.
    Id(Uuid),
    /// By name and id, on client listeners; the id is in a tagged field. The id is not zero and determines the topic.
    /// The topic's name must match too, unless the given name is empty.
    Both(&'a str, Uuid),
}

impl<'a> TopicRef<'a> {
    /// Return the name in the message.
    pub fn name(self) -> Option<&'a str> {
        match self {
            TopicRef::Name(name) => Some(name),
            TopicRef::Both(name, _) => (!name.is_empty()).then_some(name),
            TopicRef::Id(_) => None,
        }
    }
}

/// A topic with data for its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfTopic<'a, P> {
    /// The topic.
    pub topic: TopicRef<'a>,
    /// One entry for each partition.
    pub partitions: Vec<P>,
}

/// The encoding that a version uses.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Whether lengths are compact and structs end with tagged fields.
    pub(super) flexible: bool,
    /// Whether topics are named by id.
    pub(super) by_id: bool,
}

/// Decode the topics. An entry has at least `entry_bytes_min` bytes without its tagged fields.
pub(super) fn read<'a, P>(
    reader: &mut Reader<'a>,
    form: Form,
    entry_bytes_min: usize,
    entry: impl Fn(&mut Reader<'a>) -> Result<P, DecodeError>,
) -> Result<Vec<OfTopic<'a, P>>, DecodeError> {
    let flexible = form.flexible;
    let topic_bytes_min = match (form.by_id, flexible) {
        (true, _) => 18,
        (false, true) => 3,
        (false, false) => 6,
    };
    let count = reader.array_len(flexible, topic_bytes_min)?;
    let mut topics = Vec::with_capacity(count);
    for _ in 0..count {
        let mut topic = if form.by_id {
            TopicRef::Id(reader.uuid()?)
        } else {
            TopicRef::Name(reader.string(flexible)?)
        };
        let count = reader.array_len(flexible, entry_bytes_min)?;
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            partitions.push(entry(reader)?);
            reader.skip_tags(flexible)?;
        }
        match topic {
            TopicRef::Name(name) if flexible => {
                if let Some(id) = read_id(reader)? {
                    topic = TopicRef::Both(name, id);
                }
            }
            _ => reader.skip_tags(flexible)?,
        }
        topics.push(OfTopic { topic, partitions });
    }
    Ok(topics)
}

/// Decode the topic id in a topic's tagged fields, if there is one.
fn read_id(reader: &mut Reader<'_>) -> Result<Option<Uuid>, DecodeError> {
    let mut id = Uuid::ZERO;
    reader.tags(|tag, value| {
        if tag == TOPIC_ID_TAG {
            id = value.uuid()?;
        }
        Ok(tag == TOPIC_ID_TAG)
    })?;
    Ok((id != Uuid::ZERO).then_some(id))
}

/// Append the topics. Each must be named as the version requires, by name or by id.
pub(super) fn write<P>(
    writer: &mut Writer<'_>,
    topics: &[OfTopic<'_, P>],
    entry: impl Fn(&mut Writer<'_>, &P),
) {
    writer.array_len(topics.len());
    for topic in topics {
        match topic.topic {
            TopicRef::Name(name) | TopicRef::Both(name, _) => writer.string(name),
            TopicRef::Id(id) => writer.uuid(id),
        }
        writer.array_len(topic.partitions.len());
        for partition in &topic.partitions {
            entry(writer, partition);
            writer.no_tags();
        }
        match topic.topic {
            TopicRef::Both(_, id) if writer.flexible() => {
                writer.tag_count(1);
                writer.tag(TOPIC_ID_TAG, |writer| writer.uuid(id));
            }
            _ => writer.no_tags(),
        }
    }
}
