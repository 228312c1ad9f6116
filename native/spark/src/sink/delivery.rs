//! Gets closed batches to their brokers: sends without waiting for each answer, and sends again what must be, in order.

use std::collections::VecDeque;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pybroker_model::Uuid;
use pybroker_protocol::ErrorCode;

use super::Sink;
use super::request::{self, Answer};
use crate::client::Node;
use crate::encode::Batch;
use crate::error::{Error, Result};

/// A broker's wish to be left alone is believed up to this long at a time.
const THROTTLE_MAX: Duration = Duration::from_secs(30);

/// A batch on its way.
pub(super) struct Sent {
    pub(super) correlation_id: i32,
    pub(super) version: i16,
    pub(super) topic: usize,
    pub(super) partition: i32,
    pub(super) batch: Batch,
    /// Records of this partition before it.
    pub(super) sequence: i64,
    /// The order in which batches were closed.
    pub(super) number: u64,
}

/// A batch that was not taken, and why.
struct Failed {
    sent: Sent,
    problem: Error,
}

impl Failed {
    fn new(sent: Sent, problem: Error) -> Box<Self> {
        Box::new(Self { sent, problem })
    }
}

impl Sink {
    /// Sends a batch to its leader once there is room in the pipeline.
    pub(super) fn dispatch(&mut self, sent: Sent) -> Result<()> {
        let leader = self.topics[sent.topic].leaders[sent.partition as usize].0;
        let room = self.client.settings().in_flight_max - 1;
        self.drain(leader, room)?;
        // Draining may have found another leader.
        let leader = self.topics[sent.topic].leaders[sent.partition as usize].0;
        match self.send(leader, sent) {
            Ok(()) => Ok(()),
            Err(failed) => self.recover(leader, vec![*failed]),
        }
    }

    fn send(&mut self, leader: i32, mut sent: Sent) -> core::result::Result<(), Box<Failed>> {
        let target = &self.topics[sent.topic].target;
        let staging = self.plan.staging.as_ref();
        let (acks, timeout) = {
            let settings = self.client.settings();
            (settings.acks, settings.request_timeout)
        };
        let done = self
            .client
            .connection(Node::Broker(leader))
            .and_then(|connection| {
                request::send(connection, target, staging, (acks, timeout), &sent)
            });
        match done {
            Ok((correlation_id, version)) => {
                (sent.correlation_id, sent.version) = (correlation_id, version);
                if staging.is_some() || acks != 0 {
                    self.in_flight.entry(leader).or_default().push_back(sent);
                }
                Ok(())
            }
            Err(problem) => Err(Failed::new(sent, problem)),
        }
    }

    /// Reads answers of a broker until at most `room` requests are in flight to it.
    pub(super) fn drain(&mut self, broker: i32, room: usize) -> Result<()> {
        while self.in_flight.get(&broker).map_or(0, VecDeque::len) > room {
            if let Err(problem) = self.take_answer(broker)? {
                return self.recover(broker, vec![*problem]);
            }
        }
        Ok(())
    }

    /// The oldest answer of a broker. The inner error is one that may pass, with its batch.
    fn take_answer(&mut self, broker: i32) -> Result<core::result::Result<(), Box<Failed>>> {
        let Some(sent) = self
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
            .and_then(|connection| request::receive(connection, staged, &sent));
        if staged && let Ok(answer) = &answer {
            // Staged appends have a quota of their own: a bulk load is to leave other producers alone.
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
            // A batch that was sent again and had arrived the first time.
            Ok(Answer {
                code: ErrorCode::DUPLICATE_SEQUENCE_NUMBER,
                ..
            }) => {
                self.acknowledge(sent, -1);
                return Ok(Ok(()));
            }
            Ok(answer) => {
                let target = &self.topics[sent.topic].target;
                let what = format!(
                    "{} {} ({}) partition {}",
                    if staged {
                        "IngestAppend to"
                    } else {
                        "Produce to"
                    },
                    target.name,
                    target.id,
                    sent.partition
                );
                Error::refused(answer.code.0, what, answer.message.as_deref())
            }
            Err(problem) => problem,
        };
        if Self::may_pass(&problem) {
            Ok(Err(Failed::new(sent, problem)))
        } else {
            Err(problem)
        }
    }

    fn may_pass(problem: &Error) -> bool {
        // Out of order: an earlier batch of the partition was refused; `recover` sends both again, in order.
        problem.may_pass() || problem.code() == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
    }

    fn acknowledge(&mut self, sent: Sent, base_offset: i64) {
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

    /// Sends failed batches again, in order, until they are in or `delivery.timeout.ms` is over.
    fn recover(&mut self, broker: i32, mut failed: Vec<Failed>) -> Result<()> {
        let started = Instant::now();
        let patience = self.client.settings().delivery_timeout;
        loop {
            // All that was in flight to the broker is settled first: order within a partition is kept.
            self.settle_all(broker, &mut failed)?;
            failed.sort_by_key(|each| each.sent.number);
            let first_out_of_order = failed
                .iter()
                .all(|each| each.problem.code() == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
            let Some(first) = failed.first() else {
                return Ok(());
            };
            if first_out_of_order || started.elapsed() > patience || !Self::may_pass(&first.problem)
            {
                return Err(failed.swap_remove(0).problem);
            }
            sleep(self.client.settings().retry_backoff);
            self.find_leaders()?;
            let mut again = Vec::new();
            for Failed { sent, .. } in core::mem::take(&mut failed) {
                let leader = self.topics[sent.topic].leaders[sent.partition as usize].0;
                match self.send(leader, sent) {
                    // One at a time: after trouble, certainty is worth more than speed.
                    Ok(()) => {
                        if let Err(problem) = self.settle(leader)? {
                            again.push(*problem);
                        }
                    }
                    Err(problem) => again.push(*problem),
                }
            }
            failed = again;
        }
    }

    /// Reads the answers still to come from a broker; without a connection there are none.
    fn settle_all(&mut self, broker: i32, failed: &mut Vec<Failed>) -> Result<()> {
        loop {
            let lost = failed
                .iter()
                .any(|each| matches!(each.problem, Error::Network { .. }));
            if lost {
                self.client.drop_connection(Node::Broker(broker));
                for sent in self.in_flight.remove(&broker).unwrap_or_default() {
                    let problem = Error::Network {
                        broker: format!("broker {broker}"),
                        problem: std::io::ErrorKind::ConnectionAborted.into(),
                    };
                    failed.push(Failed { sent, problem });
                }
            }
            if self.in_flight.get(&broker).is_none_or(VecDeque::is_empty) {
                return Ok(());
            }
            if let Err(problem) = self.take_answer(broker)? {
                failed.push(*problem);
            }
        }
    }

    /// Reads the answer to the request sent last, and those before it.
    fn settle(&mut self, broker: i32) -> Result<core::result::Result<(), Box<Failed>>> {
        while self
            .in_flight
            .get(&broker)
            .is_some_and(|sent| !sent.is_empty())
        {
            let answer = self.take_answer(broker)?;
            if answer.is_err() {
                return Ok(answer);
            }
        }
        Ok(Ok(()))
    }

    /// Asks again where the partitions are led.
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
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
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
