//! The part that messages share that say something of each partition of some topics (ListOffsets,
//! OffsetForLeaderEpoch).

use pybroker_model::Uuid;

use crate::primitives::{DecodeError, Reader, Writer};

/// How a message names a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    /// On client listeners.
    Name(&'a str),
    /// Among brokers; zero is possible and no topic's.
    Id(Uuid),
}

/// A topic, and what is said of its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfTopic<'a, P> {
    /// Which topic.
    pub topic: TopicRef<'a>,
    /// One entry per partition.
    pub partitions: Vec<P>,
}

/// The form of a version.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Compact lengths and tagged fields.
    pub(super) flexible: bool,
    /// Topics by id.
    pub(super) by_id: bool,
}

/// Reads the topics; an entry has at least so many bytes without its tagged fields.
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
        let topic = if form.by_id {
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
        reader.skip_tags(flexible)?;
        topics.push(OfTopic { topic, partitions });
    }
    Ok(topics)
}

/// Appends the topics, which must be named as the version wants it.
pub(super) fn write<P>(
    writer: &mut Writer<'_>,
    topics: &[OfTopic<'_, P>],
    entry: impl Fn(&mut Writer<'_>, &P),
) {
    writer.array_len(topics.len());
    for topic in topics {
        match topic.topic {
            TopicRef::Name(name) => writer.string(name),
            TopicRef::Id(id) => writer.uuid(id),
        }
        writer.array_len(topic.partitions.len());
        for partition in &topic.partitions {
            entry(writer, partition);
            writer.no_tags();
        }
        writer.no_tags();
    }
}
