//! Reading of the partitions of a Fetch.

use std::time::Instant;

use pybroker_model::TopicId;
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_request::WITH_EPOCH;
use pybroker_protocol::hot::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchPartitionHead, StagedAttach,
};
use pybroker_replica::{FetchRead, Isolation, Partition, PartitionRead, TopicMap};

use super::parameters::{FetchParameters, Source};
use crate::api::topic_access::Access;
use crate::api::topic_lookup::{ResolvedTopic, points_elsewhere};
use crate::authorizer::Operation;
use crate::error_codes::{Naming, of_partition};
use crate::fetch_sessions::{FetchTarget, TopicKey};
use crate::metadata_view::MetadataView;
use crate::net::outgoing::FileSlice;

/// Result of reading one partition.
pub(super) struct Outcome {
    /// Index of the partition in the source.
    pub(super) place: u32,
    pub(super) head: FetchPartitionHead,
    pub(super) slice: Option<FileSlice>,
    /// Upper bound of the read; the fetch then waits for records beyond it.
    pub(super) end: i64,
    /// Whether the fetch must answer at once.
    pub(super) urgent: bool,
    /// Whether the records count against the replication throttle.
    pub(super) throttled: bool,
    /// Whether the partition is unknown or refused, so that the fetch cannot wait for it.
    pub(super) absent: bool,
}

/// Read all partitions of a Fetch, in the order of its source.
pub(super) fn read_all(
    parameters: &FetchParameters,
    source: &mut Source,
    map: &TopicMap<Partition>,
    view: &MetadataView,
    access: &Access<'_>,
) -> Vec<Outcome> {
    let mut left = parameters.max_bytes;
    let mut empty = true;
    let mut outcomes = Vec::with_capacity(source.len());
    let mut resolved: Option<(&TopicKey, ResolvedTopic<'_>, Option<ErrorCode>)> = None;
    let mut incarnations = Vec::new();
    let in_session = matches!(source, Source::Session(_));
    for (place, target) in source.targets() {
        // Look up each topic once, because consecutive partitions usually belong to the same topic.
        let (topic, refused) = match &resolved {
            Some((key, topic, refused)) if **key == target.topic => (topic, *refused),
            _ => {
                let topic = resolve(map, view, &target.topic);
                let given = match &target.topic {
                    TopicKey::Name(name) => Some(&**name),
                    TopicKey::Id(_) => None,
                };
                let refused = access.refuse(Operation::READ, given, &topic, view);
                let (_, topic, refused) = resolved.insert((&target.topic, topic, refused));
                (&*topic, *refused)
            }
        };
        if let Some(error) = refused {
            outcomes.push(Outcome {
                absent: true,
                ..Outcome::refused(place, target, error)
            });
            continue;
        }
        let mut of_another = false;
        if let Some(id) = incarnation(topic, target) {
            incarnations.push((place, id));
            of_another = target.resolved.is_some();
        }
        let starts_anew = || Outcome {
            urgent: true,
            ..Outcome::refused(place, target, ErrorCode::OFFSET_OUT_OF_RANGE)
        };
        if of_another && parameters.version.number < WITH_EPOCH {
            outcomes.push(starts_anew());
            continue;
        }
        let mut outcome = read_one(parameters, view, topic, place, target, left, empty);
        // A matching epoch is no proof: some clients send the new epoch with a position in the old log.
        if of_another && !in_session && outcome.is_behind_the_start(target) {
            outcome = starts_anew();
        }
        if let Some(slice) = &outcome.slice {
            left = left.saturating_sub(slice.bytes);
            empty = false;
        }
        outcomes.push(outcome);
    }
    for (place, id) in incarnations {
        source.set_resolved(place, id);
    }
    outcomes
}

/// Return the id of the topic that now has this name, if it differs from the incarnation that the client read before.
fn incarnation(topic: &ResolvedTopic<'_>, target: &FetchTarget) -> Option<TopicId> {
    topic
        .id
        .filter(|id| matches!(target.topic, TopicKey::Name(_)) && target.resolved != Some(*id))
}

fn read_one(
    parameters: &FetchParameters,
    view: &MetadataView,
    topic: &ResolvedTopic<'_>,
    place: u32,
    target: &FetchTarget,
    left: usize,
    at_least_one: bool,
) -> Outcome {
    let partition = match topic.partition(view, target.partition) {
        Ok(partition) => partition,
        Err(error) => {
            let absent = !points_elsewhere(error);
            return Outcome {
                absent,
                urgent: !absent,
                ..Outcome::refused(place, target, error).pointing(topic, view, target)
            };
        }
    };
    let now = Instant::now();
    let throttled = parameters.follower.is_some() && partition.is_throttled_as_leader();
    let held_back = throttled
        && parameters
            .follower
            .is_some_and(|follower| !partition.has_in_sync(follower.broker))
        && parameters.throttle.until(now).is_some();
    let fetch = FetchRead {
        offset: target.fetch_offset,
        max_bytes: if held_back {
            0
        } else {
            left.min(usize::try_from(target.max_bytes).unwrap_or(0))
        },
        isolation: parameters.isolation,
        current_leader_epoch: target.current_leader_epoch,
        last_fetched_epoch: target.last_fetched_epoch,
        at_least_one: at_least_one && !held_back,
        any_replica: parameters.any_replica,
    };
    if let Some(near) = near_replica(parameters, view, partition, target)
        && let Ok(read) = partition.read(&FetchRead {
            max_bytes: 0,
            at_least_one: false,
            any_replica: false,
            ..fetch
        })
    {
        let mut outcome = found(parameters.isolation, place, target, read);
        outcome.head.preferred_read_replica = near;
        outcome.urgent = true;
        return outcome;
    }
    let read = match parameters.follower {
        Some(follower) => partition.read_for_follower(follower, &fetch, now),
        None => partition.read(&fetch),
    };
    match read {
        Ok(read) => Outcome {
            throttled,
            ..found(parameters.isolation, place, target, read)
        },
        Err(error) => {
            let naming = match target.topic {
                TopicKey::Name(_) => Naming::Name,
                TopicKey::Id(_) => Naming::Id,
            };
            let code = of_partition(&error, naming);
            Outcome {
                urgent: true,
                ..Outcome::refused(place, target, code).pointing(topic, view, target)
            }
        }
    }
}

/// Return the preferred read replica (KIP-392), if this replica leads.
fn near_replica(
    parameters: &FetchParameters,
    view: &MetadataView,
    partition: &Partition,
    target: &FetchTarget,
) -> Option<i32> {
    let rack = parameters.rack.as_deref()?;
    partition.near_replica(target.fetch_offset, |broker| {
        view.broker(broker)
            .is_some_and(|broker| broker.rack.as_deref() == Some(rack))
    })
}

fn found(isolation: Isolation, place: u32, target: &FetchTarget, read: PartitionRead) -> Outcome {
    let mut head = FetchPartitionHead::refused(target.partition, 0);
    head.high_watermark = read.high_watermark;
    head.last_stable_offset = read.last_stable_offset;
    head.log_start_offset = read.log_start_offset;
    let diverging = read.diverging.map(|end| EpochEndOffset {
        epoch: end.leader_epoch,
        end_offset: end.end_offset,
    });
    head.diverging_epoch = diverging;
    head.attach = read.attach.map(|told| {
        Box::new(StagedAttach {
            directory: told.ingest.to_string(),
            plan: told.plan.into(),
            base_offset: told.base_offset,
            end_offset: told.end_offset,
            leader_epoch: told.leader_epoch,
            append_time: told.append_time.unwrap_or(-1),
        })
    });
    let urgent = diverging.is_some() || head.attach.is_some();
    if isolation == Isolation::ReadCommitted {
        let aborted = read.aborted.unwrap_or_default().into_iter();
        let aborted = aborted.map(|(producer_id, first_offset)| AbortedTransaction {
            producer_id,
            first_offset,
        });
        head.aborted_transactions = Some(aborted.collect());
    }
    let (position, bytes) = (read.records.position, read.records.len);
    let file = read.records.file.filter(|_| bytes > 0);
    let slice = file.map(|file| FileSlice {
        file,
        position,
        bytes,
    });
    Outcome {
        place,
        head,
        slice,
        end: read.bound,
        urgent,
        throttled: false,
        absent: false,
    }
}

impl Outcome {
    /// Return whether the position lies below the log start, in which case the response has no records.
    fn is_behind_the_start(&self, target: &FetchTarget) -> bool {
        self.head.error_code == 0 && target.fetch_offset > self.head.log_start_offset
    }

    fn refused(place: u32, target: &FetchTarget, error: ErrorCode) -> Self {
        Outcome {
            place,
            head: FetchPartitionHead::refused(target.partition, error.0),
            slice: None,
            end: -1,
            urgent: false,
            throttled: false,
            absent: false,
        }
    }

    /// Add the current leader if the error says that another broker leads.
    fn pointing(
        mut self,
        topic: &ResolvedTopic<'_>,
        view: &MetadataView,
        target: &FetchTarget,
    ) -> Self {
        if points_elsewhere(ErrorCode(self.head.error_code)) {
            self.head.current_leader = topic.current_leader(view, target.partition);
        }
        self
    }
}

/// Resolve the topic of a partition to read.
pub(super) fn resolve<'s>(
    map: &'s TopicMap<Partition>,
    view: &MetadataView,
    topic: &TopicKey,
) -> ResolvedTopic<'s> {
    match topic {
        TopicKey::Name(name) => ResolvedTopic::by_name(map, view, name),
        TopicKey::Id(id) => ResolvedTopic::by_id(map, view, *id),
    }
}
