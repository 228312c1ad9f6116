//! Responses to a staged append whose replica is removed while it copies its staged records to other replicas.

mod support;

use std::sync::{Arc, Weak};

use pybroker_model::TopicIdPartition;
use pybroker_protocol::{ApiKey, ErrorCode};
use pybroker_replica::{Replicas, StagedChunk, StagedCopies, StopOrder};
use pybroker_server::metadata_view::{MetadataDelta, MetadataHolder};
use pybroker_storage::FlushMode;
use support::staged::{append_body, appended, open_ingest};
use support::{BROKER_ID, TestServer, now_ms, topic_id};

const EPOCH: i32 = 5;
const FOLLOWER: i32 = 2;
/// Partition error in the tests' tuples if the response refuses the whole request.
const NO_PARTITION: i16 = -1;

/// A follower that accepts every copy, but removes the leader's replica meanwhile.
struct LeavingFollower {
    replicas: Weak<Replicas>,
    /// If set, the metadata from which the topic is also removed, so that clients no longer see it.
    deleted: Option<Arc<MetadataHolder>>,
}

impl std::fmt::Debug for LeavingFollower {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LeavingFollower")
            .finish_non_exhaustive()
    }
}

impl StagedCopies for LeavingFollower {
    fn send(&self, _: i32, chunk: &StagedChunk<'_>) -> Result<i64, String> {
        if let Some(metadata) = &self.deleted {
            metadata.apply(MetadataDelta {
                topics_removed: vec![chunk.name.topic_id],
                ..MetadataDelta::default()
            });
        }
        let order = StopOrder {
            tip: TopicIdPartition {
                topic_id: chunk.name.topic_id,
                partition: chunk.partition,
            },
            leader_epoch: EPOCH,
            delete: true,
        };
        let replicas = self.replicas.upgrade().ok_or("gone")?;
        for stopped in replicas.stop(&[order], now_ms()) {
            stopped.map_err(|error| error.to_string())?;
        }
        Ok(chunk.sequence)
    }
}

fn answered(deleted: bool) -> (i16, i16, i64) {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_replicated(topic_id(1), "moving", EPOCH, &[BROKER_ID, FOLLOWER]);
    let replicas = &server.disk.replicas;
    replicas.ingests().set_copies(Arc::new(LeavingFollower {
        replicas: Arc::downgrade(replicas),
        deleted: deleted.then(|| Arc::clone(&server.metadata)),
    }));
    let name = open_ingest(replicas, topic_id(1));
    let mut client = server.connect();
    let sent = client.send(ApiKey::IngestAppend, 0, &append_body(&name, 0));
    appended(&mut client, sent)
}

// checklist: R33
#[test]
fn a_replica_that_was_moved_away_meanwhile_is_led_elsewhere() {
    let elsewhere = ErrorCode::NOT_LEADER_OR_FOLLOWER.0;
    assert_eq!(answered(false), (0, elsewhere, -1));
}

#[test]
fn a_topic_that_was_deleted_meanwhile_is_unknown() {
    let unknown = ErrorCode::UNKNOWN_TOPIC_ID.0;
    assert_eq!(answered(true), (unknown, NO_PARTITION, -1));
}
