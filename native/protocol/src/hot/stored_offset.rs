//! A committed offset in `__consumer_offsets`: Kafka's OffsetCommitKey (type 1) and OffsetCommitValue (version 4, with
//! a tagged field of pybroker). The schema interpreter decodes it (`StoredOffset`), with the same layouts.

use pybroker_model::Uuid;

use crate::primitives::Writer;

/// The type at the start of a key.
const KEY_TYPE: i16 = 1;
/// The version at the start of a value.
const VALUE_VERSION: i16 = 4;
const TOPIC_ID_TAG: u32 = 0;
/// Tag of pybroker's own field: the expiry time of the offset, if its client set one.
const EXPIRES_TAG: u32 = 10_001;

/// One committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOffset<'a> {
    /// The group's id, at most `i16::MAX` bytes.
    pub group: &'a str,
    /// The topic's name at the time of the commit.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Leader epoch of the last consumed record, or −1 if unknown.
    pub leader_epoch: i32,
    /// Metadata of the commit.
    pub metadata: &'a str,
    /// Commit time, in milliseconds since the Unix epoch.
    pub commit_timestamp: i64,
    /// Expiry time, in milliseconds since the Unix epoch. `None` means that the broker's settings apply.
    pub expire_timestamp: Option<i64>,
    /// Topic id, or zero if unknown.
    pub topic_id: Uuid,
}

impl StoredOffset<'_> {
    /// Append the key.
    pub fn encode_key(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, false);
        writer.i16(KEY_TYPE);
        writer.string(self.group);
        writer.string(self.topic);
        writer.i32(self.partition);
    }

    /// Append the value.
    pub fn encode_value(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, true);
        writer.i16(VALUE_VERSION);
        writer.i64(self.offset);
        writer.i32(self.leader_epoch);
        // Write the string as bytes: `Writer::string` would truncate it at `i16::MAX` bytes, but only a setting limits
        // its length.
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
