//! The ids of the cluster and of the metadata topic.

use pybroker_model::Uuid;
use pybroker_quorum::{Answer, Ask, Batch, Body, EpochEnd, Error, Event, FetchResult, Request};

use crate::replica::{Replica, TOPIC, key, vote, voters};

#[test]
fn sentinel_is_accepted_up_to_the_topic_ids_record() {
    let mut replica = Replica::new(1, voters(1));
    replica.write();
    let epoch = replica.quorum.state().epoch;
    let record = replica
        .quorum
        .log()
        .topic_id()
        .map_or(-1, |(offset, _)| offset);
    let (before, behind) = (
        EpochEnd {
            epoch,
            offset: record,
        },
        replica.quorum.log().last(),
    );
    replica.fetch(1, 2, epoch, Uuid::METADATA, before);
    replica.fetch(2, 3, epoch, Uuid::METADATA, behind);
    replica.fetch(3, 4, epoch, Uuid::from_u128(8), before);
    assert_eq!(replica.error(1), Some(Error::None));
    assert_eq!(replica.error(2), Some(Error::UnknownTopicId));
    assert_eq!(replica.error(3), Some(Error::UnknownTopicId));
    replica.ask(4, 2, epoch, Uuid::METADATA, vote(1, epoch, record, true));
    replica.ask(
        5,
        2,
        epoch,
        Uuid::METADATA,
        vote(1, epoch, record + 1, true),
    );
    assert_eq!(replica.error(4), Some(Error::None));
    assert_eq!(replica.error(5), Some(Error::UnknownTopicId));
}

#[test]
fn sentinel_behind_the_record_on_a_diverging_log_is_told_where() {
    let mut replica = Replica::new(1, voters(1));
    replica.write();
    let epoch = replica.quorum.state().epoch;
    replica.fetch(
        1,
        2,
        epoch,
        Uuid::METADATA,
        EpochEnd {
            epoch: 0,
            offset: 40,
        },
    );
    let diverging = EpochEnd {
        epoch: 0,
        offset: 0,
    };
    let fetched = FetchResult::Diverging(diverging);
    let answer = replica.response(1).map(|response| response.answer.clone());
    assert_eq!(
        answer,
        Some(Answer::Fetch {
            high_watermark: 3,
            fetched
        })
    );
}

#[test]
fn truncation_forgets_the_topic_id() {
    let mut replica = Replica::new(1, voters(3));
    replica.ask(1, 2, 1, Uuid::METADATA, Ask::BeginQuorumEpoch);
    replica.write();
    let fetch = |replica: &Replica| {
        replica
            .sent()
            .last()
            .map(|(_, correlation, _)| *correlation)
            .unwrap_or(0)
    };
    let batch = Batch {
        base_offset: 0,
        records: 1,
        epoch: 1,
        body: Body::TopicId(TOPIC),
        encoded: None,
    };
    let fetched = FetchResult::Batches(vec![batch]);
    let correlation = fetch(&replica);
    replica.answer(
        2,
        correlation,
        1,
        Some(2),
        Answer::Fetch {
            high_watermark: 0,
            fetched,
        },
    );
    replica.write();
    assert!(replica.quorum.log().topic_id().is_some());
    assert_eq!(replica.quorum.state().topic_id, None, "it is not committed");
    let fetched = FetchResult::Diverging(EpochEnd {
        epoch: 0,
        offset: 0,
    });
    let correlation = fetch(&replica);
    replica.answer(
        2,
        correlation,
        1,
        Some(2),
        Answer::Fetch {
            high_watermark: 0,
            fetched,
        },
    );
    assert_eq!(replica.quorum.log().topic_id(), None);
}

#[test]
fn other_clusters_are_refused() {
    let mut replica = Replica::new(1, voters(3));
    let request = Request {
        cluster_id: Uuid::from_u128(1000),
        topic_id: Uuid::METADATA,
        epoch: 9,
        sender: key(2),
        ask: Ask::BeginQuorumEpoch,
    };
    replica.step(Event::Request { handle: 1, request });
    assert_eq!(replica.error(1), Some(Error::InconsistentClusterId));
    assert_eq!(replica.quorum.state().epoch, 0);
}
