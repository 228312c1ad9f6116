//! Processing of a Fetch response: carry out the orders and flush the appended records together.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use pybroker_client::Error;
use pybroker_model::TopicIdPartition;
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_response::{FetchPartitionResponse, FetchResponse, StagedAttach};
use pybroker_protocol::hot::of_topic::TopicRef;
use pybroker_replica::{EpochEnd, FetchFrom, PartitionError, Replicas};
use pybroker_storage::AttachNotice;

use super::{FLUSH_PATIENCE, Fetcher, Stop};
use crate::following::{Order, Trouble};
use crate::requests;

const NOT_ATTACHED: &str = "cannot link the segments staged here";

/// New errors of a response; each entry becomes one log line. Key: the error code, and whether fetching stops until
/// there is a newer leader epoch. Value: the number of partitions with the error, and the first of these partitions.
type Troubles = BTreeMap<(i16, bool), (usize, TopicIdPartition)>;

impl Fetcher {
    /// Process a response.
    pub(super) fn answered(&mut self, body: &[u8]) -> Result<(), Stop> {
        let response = {
            let address = |error| {
                let address = self.link.get().map_or("", |open| open.connection.address());
                Error::decode(address, error)
            };
            FetchResponse::decode(body, requests::fetch_version(self.names.by_id))
                .map_err(address)?
        };
        let error = ErrorCode(response.error_code);
        let remembers = self.session.answered(error, response.session_id);
        if error != ErrorCode::NONE && !of_session(error) {
            let what = format!("Fetch of broker {}", self.shared.broker_id);
            return Err(Error::refused(error, what, None).into());
        }
        self.link.works();
        let replicas = self.shared.replicas.upgrade().ok_or(Stop::NoReplicas)?;
        let mut troubles = Troubles::new();
        for topic in &response.topics {
            let named = if self.names.by_id {
                TopicRef::Id(topic.topic_id)
            } else {
                TopicRef::Name(topic.name)
            };
            let Some(topic_id) = self.names.id(named) else {
                continue;
            };
            for told in &topic.partitions {
                let tip = TopicIdPartition {
                    topic_id,
                    partition: told.head.partition,
                };
                self.one_answered(&replicas, tip, told, &mut troubles);
            }
        }
        self.tell(&troubles);
        self.await_flushes();
        if !remembers {
            self.begin_anew();
        }
        Ok(())
    }

    fn one_answered(
        &mut self,
        replicas: &Replicas,
        tip: TopicIdPartition,
        told: &FetchPartitionResponse<'_>,
        troubles: &mut Troubles,
    ) {
        let Some(following) = self.followed.get_mut(&tip) else {
            return;
        };
        let records = told.records.filter(|records| !records.is_empty());
        let (now, backoff) = (self.shared.clock.now(), self.shared.settings.backoff);
        match following.answered(&told.head, records.is_some(), now, backoff) {
            Order::Append(from) => {
                self.append(replicas, tip, from, records.unwrap_or_default());
            }
            Order::Cut(from, common) => self.cut(replicas, tip, from, common),
            Order::StartOver(from, offset) => self.start_over(replicas, tip, from, offset),
            Order::Attach(from, told) => {
                self.session.doubt(tip);
                let replicas = self.shared.replicas.clone();
                let now_ms = self.shared.clock.now_ms();
                let work = move || attach(&replicas, now_ms, tip, &from, &told);
                let begun = self
                    .attaches
                    .begin(tip, from.leader_epoch, &self.waker, work);
                if let Err(problem) = begun {
                    let error = PartitionError::storage(problem);
                    self.failed(tip, NOT_ATTACHED, &error);
                }
            }
            Order::Follow => {
                let (high_watermark, log_start) = following.bounds();
                let epoch = following.leader_epoch();
                let followed = partition(replicas, tip).and_then(|partition| {
                    partition.follow_bounds(epoch, high_watermark, log_start)
                });
                if let Err(error) = followed {
                    self.failed(tip, "cannot apply the leader's high watermark", &error);
                }
            }
            Order::AskBounds => self.out_of_range.push(tip),
            Order::HoldBack(trouble) => {
                self.hold_back(tip);
                note(troubles, tip, trouble);
            }
            Order::Ignore => {}
        }
    }

    /// Make partitions ready again whose attach has completed, or pause those whose attach failed.
    pub(super) fn look_at_attaches(&mut self) {
        for done in self.attaches.take() {
            let Some(following) = self.followed.get_mut(&done.tip) else {
                continue;
            };
            if following.leader_epoch() != done.leader_epoch || !following.is_attaching() {
                continue;
            }
            match done.outcome {
                Ok(_) => {
                    following.resume();
                    self.ready.push(done.tip);
                }
                Err(error) => self.failed(done.tip, NOT_ATTACHED, &error),
            }
        }
    }

    fn append(
        &mut self,
        replicas: &Replicas,
        tip: TopicIdPartition,
        from: FetchFrom,
        records: &[u8],
    ) {
        let now_ms = self.shared.clock.now_ms();
        let appended = partition(replicas, tip).and_then(|partition| {
            let end = partition.append_fetched(&from, records, now_ms)?;
            if partition.is_throttled_as_follower() {
                let now = self.shared.clock.now();
                replicas.throttles().follower.record(records.len(), now);
            }
            Ok(end)
        });
        let end = match appended {
            Ok(end) => end,
            Err(error) => return self.failed(tip, "cannot append the leader's records", &error),
        };
        let counters = &self.counters;
        counters.bytes.fetch_add(records.len() as u64, Relaxed);
        let records = u64::try_from(end - from.offset).unwrap_or(0);
        counters.records.fetch_add(records, Relaxed);
        if let Some(following) = self.followed.get_mut(&tip) {
            following.appended(end);
            // All partitions of the response wait for each other's flush. The next request then includes the flushed
            // ones.
            following.wait_for_flush(end);
            self.flushing.push(tip);
        }
    }

    fn cut(
        &mut self,
        replicas: &Replicas,
        tip: TopicIdPartition,
        from: FetchFrom,
        common: EpochEnd,
    ) {
        let now_ms = self.shared.clock.now_ms();
        let cut = partition(replicas, tip).and_then(|partition| {
            let committed = partition.high_watermark();
            let end = partition.cut_diverging(&from, common, now_ms)?;
            Ok((end, committed, partition.topic().clone()))
        });
        match cut {
            Ok((end, committed, topic)) => {
                let text = format!(
                    "{topic} ({tip}): truncated from {} to {end}: its last epoch here is {}, but leader {} (leader \
                     epoch {}) has epoch {} up to {}",
                    from.offset,
                    from.last_epoch,
                    self.leader,
                    from.leader_epoch,
                    common.leader_epoch,
                    common.end_offset
                );
                if end < committed {
                    self.shared.warn(&format!(
                        "{text}; records committed here up to {committed} differ from the leader's"
                    ));
                } else if end < from.offset {
                    self.shared.info(&text);
                }
                self.ready.push(tip);
            }
            Err(error) => self.failed(
                tip,
                "cannot truncate records that the leader does not have",
                &error,
            ),
        }
    }

    /// Truncate the whole log and start it at `offset`, because the leader does not have the records after this log's
    /// end.
    pub(super) fn start_over(
        &mut self,
        replicas: &Replicas,
        tip: TopicIdPartition,
        from: FetchFrom,
        offset: i64,
    ) {
        let now_ms = self.shared.clock.now_ms();
        let done = partition(replicas, tip).and_then(|partition| {
            partition.start_over(&from, offset, now_ms)?;
            Ok(partition.topic().clone())
        });
        match done {
            Ok(topic) => {
                let text = format!(
                    "{topic} ({tip}): restarted at {offset}: the log of leader {} (leader epoch {}) has no records \
                     after {} in epoch {}",
                    self.leader, from.leader_epoch, from.offset, from.last_epoch
                );
                if from.log_start < from.offset {
                    self.shared.warn(&text);
                } else {
                    self.shared.info(&text);
                }
                self.ready.push(tip);
            }
            Err(error) => self.failed(tip, "cannot restart the log at the leader's offset", &error),
        }
    }

    /// Pause a partition after an error. Logs the first of several errors in a row, unless another broker leads by now.
    fn failed(&mut self, tip: TopicIdPartition, what: &str, error: &PartitionError) {
        let Some(following) = self.followed.get_mut(&tip) else {
            return;
        };
        let new = following.failed(self.shared.clock.now(), self.shared.settings.backoff);
        let moved = matches!(
            error,
            PartitionError::NotLeader
                | PartitionError::Deleted
                | PartitionError::FencedLeaderEpoch { .. }
                | PartitionError::UnknownLeaderEpoch { .. }
        );
        if new && !moved {
            self.shared.warn(&format!(
                "{what}, retrying partition={tip} leader={}: {error}",
                self.leader
            ));
        }
        self.hold_back(tip);
    }

    fn tell(&self, troubles: &Troubles) {
        for (&(error, for_good), (count, first)) in troubles {
            let then = if for_good {
                "not fetched until the controller announces a newer leader epoch"
            } else {
                "retrying"
            };
            let more = match count - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            self.shared.info(&format!(
                "broker {} answers {} for {first}{more}; {then}",
                self.leader,
                ErrorCode(error)
            ));
        }
    }

    /// Wait for the flush of the appended records, for a short time.
    fn await_flushes(&mut self) {
        let until = self.shared.clock.now() + FLUSH_PATIENCE;
        self.look_at_flushes();
        while !self.flushing.is_empty() && self.shared.clock.now() < until {
            if !self.mailbox.wait_for_flush(until) {
                break;
            }
            self.look_at_flushes();
        }
        for tip in &self.flushing {
            self.session.doubt(*tip);
        }
    }
}

fn attach(
    replicas: &Weak<Replicas>,
    now_ms: i64,
    tip: TopicIdPartition,
    from: &FetchFrom,
    told: &StagedAttach,
) -> Result<i64, PartitionError> {
    let replicas = replicas.upgrade().ok_or(PartitionError::NotLeader)?;
    let told = AttachNotice {
        ingest: told.directory.as_str().into(),
        plan: u32::try_from(told.plan).map_err(PartitionError::storage)?,
        base_offset: told.base_offset,
        end_offset: told.end_offset,
        leader_epoch: told.leader_epoch,
        append_time: (told.append_time >= 0).then_some(told.append_time),
        holders: Arc::default(),
    };
    replicas.attach_fetched(tip, from, &told, now_ms)
}

fn partition(
    replicas: &Replicas,
    tip: TopicIdPartition,
) -> Result<std::sync::Arc<pybroker_replica::Partition>, PartitionError> {
    replicas.partition(tip).ok_or(PartitionError::NotLeader)
}

fn note(troubles: &mut Troubles, tip: TopicIdPartition, trouble: Trouble) {
    if trouble.new || trouble.for_good {
        let key = (trouble.error.0, trouble.for_good);
        troubles.entry(key).or_insert((0, tip)).0 += 1;
    }
}

/// Return whether the error ends the session. The next request then lists all partitions.
const fn of_session(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
            | ErrorCode::INVALID_FETCH_SESSION_EPOCH
            | ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
    )
}
