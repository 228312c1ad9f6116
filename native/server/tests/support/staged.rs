//! IngestAppend requests of a client.

use pybroker_model::TopicId;
use pybroker_protocol::ApiKey;
use pybroker_protocol::primitives::{Reader, Writer};
use pybroker_replica::{IngestName, NewIngest, Replicas, TopicConfig};

use super::records::batch;
use super::{Client, now_ms};

/// Open an ingest into a hosted topic, so that it accepts appends.
pub fn open_ingest(replicas: &Replicas, topic_id: TopicId) -> IngestName {
    let name = IngestName {
        topic_id,
        ingest_id: "load".into(),
        batch_id: -1,
    };
    let new = NewIngest {
        name: name.clone(),
        directory: "load-1".into(),
        epoch: 1,
        config: TopicConfig::default().into(),
    };
    replicas.open_ingest(new, now_ms()).expect("opens");
    name
}

/// Encode an IngestAppend of one record for partition 0, from a new attempt.
pub fn append_body(name: &IngestName, attempt: i64) -> Vec<u8> {
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body, true);
    writer.uuid(name.topic_id.uuid());
    writer.string(&name.ingest_id);
    writer.i64(name.batch_id);
    writer.i32(1);
    writer.i32(0);
    writer.i64(attempt);
    writer.array_len(1);
    writer.i32(0);
    writer.i64(0);
    writer.bytes(&batch(&[b"staged"]));
    writer.no_tags();
    writer.no_tags();
    body
}

/// Read a response: error, error of the partition and next sequence; -1 if it has no partition.
pub fn appended(client: &mut Client, correlation: i32) -> (i16, i16, i64) {
    let body = client.receive(ApiKey::IngestAppend, 0, correlation);
    let mut reader = Reader::new(&body);
    let mut read = || {
        reader.i32()?;
        let error = reader.i16()?;
        reader.nullable_string(true)?;
        if reader.array_len(true, 1)? == 0 {
            return Ok((error, -1, -1));
        }
        reader.i32()?;
        let of_partition = reader.i16()?;
        reader.nullable_string(true)?;
        Ok::<_, pybroker_protocol::primitives::DecodeError>((error, of_partition, reader.i64()?))
    };
    read().expect("an answer")
}
