//! A committed offset as it is stored in `__consumer_offsets`: Kafka's OffsetCommitKey (type 1) and OffsetCommitValue
//! (version 4, with our tag). Read by the schema interpreter (`StoredOffset`), whose layouts these are.

use pybroker_model::Uuid;

use crate::primitives::Writer;

/// The type in front of a key.
const KEY_TYPE: i16 = 1;
/// The version in front of a value.
const VALUE_VERSION: i16 = 4;
const TOPIC_ID_TAG: u32 = 0;
/// Ours: when the offset expires, where its client asked for that.
const EXPIRES_TAG: u32 = 10_001;

/// One committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOffset<'a> {
    /// The group's id; at most `i16::MAX` bytes.
    pub group: &'a str,
    /// The topic's name when it was committed.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The epoch of the leader that the record before it was read from, −1: not known.
    pub leader_epoch: i32,
    /// The client's own words.
    pub metadata: &'a str,
    /// Milliseconds since 1970.
    pub commit_timestamp: i64,
    /// The same; `None`: as the broker's settings say.
    pub expire_timestamp: Option<i64>,
    /// The topic's incarnation; zero: not known.
    pub topic_id: Uuid,
}

impl StoredOffset<'_> {
    /// Appends the key.
    pub fn encode_key(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, false);
        writer.i16(KEY_TYPE);
        writer.string(self.group);
        writer.string(self.topic);
        writer.i32(self.partition);
    }

    /// Appends the value.
    pub fn encode_value(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, true);
        writer.i16(VALUE_VERSION);
        writer.i64(self.offset);
        writer.i32(self.leader_epoch);
        // Laid out as a string is, which this writer would cut at `i16::MAX`; how long it may be is a setting.
        writer.bytes(self.metadata.as_bytes());
        writer.i64(self.commit_timestamp);
        let id = (self.topic_id != Uuid::ZERO).then_some(self.topic_id);
        writer.tag_count(u32::from(id.is_some()) + u32::from(self.expire_timestamp.is_some()));
        if let Some(id) = id {
            writer.tag(TOPIC_ID_TAG, |writer| writer.uuid(id));
        }
        if let Some(expires) = self.expire_timestamp {
            writer.tag(EXPIRES_TAG, |writer| writer.i64(expires));
        }
    }
}
