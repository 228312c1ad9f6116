//! Delivery of closed batches: pipelined sends, and retries in order.

use std::collections::VecDeque;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pybroker_client::{self as client, Node};
use pybroker_model::Uuid;
use pybroker_protocol::ErrorCode;

use super::Sink;
use super::request::{self, Answer, ProduceHead};
use crate::encode::Batch;
use crate::error::{Error, Result};

/// Maximum time for which the sink waits because of one throttle time.
const THROTTLE_MAX: Duration = Duration::from_secs(30);

/// A batch in flight.
pub(super) struct BatchInFlight {
    pub(super) topic: usize,
    pub(super) partition: i32,
    pub(super) batch: Batch,
    /// Number of records of this partition in earlier batches.
    pub(super) sequence: i64,
    /// Number of the batch, in the order in which batches were closed.
    pub(super) number: u64,
}

/// A batch that failed, with its error.
struct FailedBatch {
    /// The leader to which the batch was sent.
    broker: i32,
    sent: BatchInFlight,
    problem: Error,
}

impl FailedBatch {
    fn new(broker: i32, sent: BatchInFlight, problem: Error) -> Box<Self> {
        Box::new(Self {
            broker,
            sent,
            problem,
        })
    }
}

impl Sink {
    /// Send a batch to its leader once there is room in the pipeline.
    pub(super) fn dispatch(&mut self, sent: BatchInFlight) -> Result<()> {
        let room = self.settings.in_flight_max - 1;
        self.drain(self.leader_of(&sent), room)?;
        // `drain` may have changed the leader, so `send` checks it again.
        match self.send(sent) {
            Ok(()) => Ok(()),
            Err(failed) => self.recover(*failed),
        }
    }

    /// Return the leader of the batch's partition, or −1 if there is none.
    fn leader_of(&self, sent: &BatchInFlight) -> i32 {
        self.topics[sent.topic].leaders[sent.partition as usize].0
    }

    fn send(&mut self, sent: BatchInFlight) -> core::result::Result<(), Box<FailedBatch>> {
        let leader = self.leader_of(&sent);
        if leader < 0 {
            let problem = self.refused(&sent, ErrorCode::LEADER_NOT_AVAILABLE, None);
            return Err(FailedBatch::new(leader, sent, problem));
        }
        let target = &self.topics[sent.topic].target;
        let staging = self.plan.staging.as_ref();
        let transaction = self.plan.transaction.as_ref();
        let acks = if transaction.is_some() {
            -1
        } else {
            self.settings.acks
        };
        let timeout = self.client.settings().connection.request_timeout;
        let done = self
            .client
            .connection(Node::Broker(leader))
            .and_then(|connection| {
                let settings = ProduceHead {
                    transaction,
                    acks,
                    timeout,
                };
                request::send(connection, target, staging, &settings, &sent)
            });
        match done {
            Ok(request) => {
                if staging.is_some() || acks != 0 {
                    let waiting = self.in_flight.entry(leader).or_default();
                    waiting.push_back((request, sent));
                }
                Ok(())
            }
            Err(problem) => Err(FailedBatch::new(leader, sent, problem.into())),
        }
    }

    /// Read responses of a broker until at most `room` requests are in flight to it.
    pub(super) fn drain(&mut self, broker: i32, room: usize) -> Result<()> {
        while self.in_flight.get(&broker).map_or(0, VecDeque::len) > room {
            if let Err(failed) = self.take_answer(broker)? {
                return self.recover(*failed);
            }
        }
        Ok(())
    }

    /// Read the oldest response of a broker. The inner error is retriable and contains the batch.
    fn take_answer(&mut self, broker: i32) -> Result<core::result::Result<(), Box<FailedBatch>>> {
        let Some((request, sent)) = self
            .in_flight
            .get_mut(&broker)
            .and_then(VecDeque::pop_front)
        else {
            return Ok(Ok(()));
        };
        let staged = self.plan.staging.is_some();
        let answer = self
            .client
            .connection(Node::Broker(broker))
            .and_then(|connection| request::receive(connection, staged, request));
        if staged && let Ok(answer) = &answer {
            // Staged appends have their own quota, so that bulk loads do not disturb other producers.
            sleep(Duration::from_millis(answer.throttle_ms.max(0) as u64).min(THROTTLE_MAX));
        }
        let problem = match answer {
            Ok(Answer {
                code: ErrorCode::NONE,
                base_offset,
                ..
            }) => {
                self.acknowledge(sent, base_offset);
                return Ok(Ok(()));
            }
            // The batch is a retry whose first attempt had succeeded.
            Ok(Answer {
                code: ErrorCode::DUPLICATE_SEQUENCE_NUMBER,
                ..
            }) => {
                self.acknowledge(sent, -1);
                return Ok(Ok(()));
            }
            Ok(answer) => self.refused(&sent, answer.code, answer.message.as_deref()),
            Err(problem) => problem.into(),
        };
        if Self::may_pass(&problem) {
            Ok(Err(FailedBatch::new(broker, sent, problem)))
        } else {
            Err(problem)
        }
    }

    fn refused(&self, sent: &BatchInFlight, code: ErrorCode, detail: Option<&str>) -> Error {
        let request = match &self.plan.staging {
            Some(staging) => format!("IngestAppend of {}", staging.ingest_id),
            None => "Produce".into(),
        };
        let target = &self.topics[sent.topic].target;
        let what = format!(
            "{request} to {} ({}) partition {}",
            target.name, target.id, sent.partition
        );
        Error::refused(code, what, detail)
    }

    fn may_pass(problem: &Error) -> bool {
        // The batch is out of order, because the broker refused an earlier batch of the partition. `recover` sends both
        // again, in order.
        problem.may_pass() || problem.code() == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
    }

    fn acknowledge(&mut self, sent: BatchInFlight, base_offset: i64) {
        let topic = &mut self.topics[sent.topic];
        if base_offset >= 0
            && let Some(written) = topic.written.get_mut(&sent.partition)
        {
            if written.first_offset < 0 {
                written.first_offset = base_offset;
            }
            let last = base_offset + i64::from(sent.batch.records) - 1;
            written.last_offset = written.last_offset.max(last);
        }
        topic.batches.recycle(sent.batch.bytes);
    }

    /// Retry a failed batch, and the batches that fail with it, in order, until they succeed or `delivery.timeout.ms`
    /// is over.
    ///
    /// It looks up leaders only when no batch is in flight to any broker. Otherwise a batch could overtake an earlier
    /// batch of its partition that the old leader has not answered yet.
    fn recover(&mut self, first: FailedBatch) -> Result<()> {
        let started = Instant::now();
        let patience = self.client.settings().delivery_timeout;
        let mut failed = Vec::new();
        self.set_aside(first, &mut failed);
        self.settle(&mut failed)?;
        loop {
            failed.sort_by_key(|each| each.sent.number);
            let all_out_of_order = failed
                .iter()
                .all(|each| each.problem.code() == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
            let Some(first) = failed.first() else {
                return Ok(());
            };
            if all_out_of_order || started.elapsed() > patience || !Self::may_pass(&first.problem) {
                return Err(failed.swap_remove(0).problem);
            }
            sleep(self.client.settings().retry_backoff);
            self.find_leaders()?;
            for FailedBatch { sent, .. } in core::mem::take(&mut failed) {
                if let Err(problem) = self.send(sent) {
                    self.set_aside(*problem, &mut failed);
                }
                // After a failure, wait for each batch before sending the next, so that their order is certain.
                self.settle(&mut failed)?;
            }
        }
    }

    /// Keep a batch for the retry. If its connection is lost, keep all batches that were sent over it, because their
    /// responses are lost too.
    fn set_aside(&mut self, one: FailedBatch, failed: &mut Vec<FailedBatch>) {
        let broker = one.broker;
        if matches!(one.problem, Error::Client(client::Error::Network { .. })) {
            self.client.drop_connection(Node::Broker(broker));
            for (_, sent) in self.in_flight.remove(&broker).unwrap_or_default() {
                let problem = client::Error::Network {
                    broker: format!("broker {broker}"),
                    problem: std::io::ErrorKind::ConnectionAborted.into(),
                };
                let problem = problem.into();
                failed.push(FailedBatch {
                    broker,
                    sent,
                    problem,
                });
            }
        }
        failed.push(one);
    }

    /// Read all outstanding responses of every broker.
    fn settle(&mut self, failed: &mut Vec<FailedBatch>) -> Result<()> {
        let brokers: Vec<i32> = self.in_flight.keys().copied().collect();
        for broker in brokers {
            while self.in_flight.get(&broker).map_or(0, VecDeque::len) > 0 {
                if let Err(problem) = self.take_answer(broker)? {
                    self.set_aside(*problem, failed);
                }
            }
        }
        Ok(())
    }

    /// Look up the partitions' leaders again.
    pub(super) fn find_leaders(&mut self) -> Result<()> {
        if self.topics.is_empty() {
            return Ok(());
        }
        let wanted: Vec<(Uuid, &str)> = self
            .topics
            .iter()
            .map(|topic| (topic.target.id, topic.target.name.as_str()))
            .collect();
        let found = self.client.topics(&wanted)?;
        for (topic, found) in self.topics.iter_mut().zip(found) {
            if (found.leaders.len() as i32) < topic.target.partitions {
                return Err(Error::refused(
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    format!(
                        "{} has {} partitions, not {} as when the job began",
                        topic.target.name,
                        found.leaders.len(),
                        topic.target.partitions
                    ),
                    None,
                ));
            }
            topic.leaders = found.leaders;
        }
        Ok(())
    }
}
