//! Writes Arrow batches as records: encode, send without waiting for each answer, send again what must be.

mod request;

use std::collections::{BTreeMap, VecDeque};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow_array::StructArray;
use pybroker_model::{NO_PRODUCER_ID, Uuid, crc32c, partition_of_key};
use pybroker_protocol::ErrorCode;

use crate::client::{Client, Node};
use crate::encode::{Batch, Batches, Rows, record_bytes};
use crate::error::{Error, Result};
use crate::partitioner::Sticky;
use request::Answer;
pub use request::Staging;

/// A broker's wish to be left alone is believed up to this long at a time.
const THROTTLE_MAX: Duration = Duration::from_secs(30);

/// A topic to write to, as the driver resolved it before the job began.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its id: rows never go to a topic that took over the name. Zero = the broker knows no ids.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// How many partitions it had when the job began: each key goes where it went at the first attempt.
    pub partitions: i32,
    /// `max.message.bytes`; batches stay below it.
    pub batch_bytes_max: usize,
}

/// What a sink does with its rows.
#[derive(Clone, Debug)]
pub struct SinkPlan {
    /// The topics; with the column `topic` any of them, else the only one.
    pub targets: Vec<Target>,
    /// Whether the column `topic` chooses, because no topic was given for all rows.
    pub topic_column: bool,
    /// Staged outside the log until the job commits; `None` = produced at once.
    pub staging: Option<Staging>,
}

/// What became of the rows for one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records.
    pub records: u64,
    /// Bytes of keys and values.
    pub payload: u64,
    /// Bytes of record batches as they were sent.
    pub bytes: u64,
    /// The batches' own checksums in order, 4 bytes each.
    pub crcs: Vec<u8>,
    /// Batches.
    pub batches: u64,
    /// Offset of the first record; −1 if not known (staged, or `acks=0`).
    pub first_offset: i64,
    /// Offset of the last record; −1 if not known.
    pub last_offset: i64,
}

struct Topic {
    target: Target,
    batches: Batches,
    sticky: Sticky,
    leaders: Vec<(i32, i32)>,
    /// Records closed so far, by partition.
    sequences: Vec<i64>,
    written: BTreeMap<i32, Written>,
}

impl Written {
    /// CRC-32C over the batches' own checksums: what IngestCommit lists.
    #[must_use]
    pub fn crc(&self) -> u32 {
        crc32c(&self.crcs)
    }
}

/// A batch on its way.
struct Sent {
    correlation_id: i32,
    version: i16,
    topic: usize,
    partition: i32,
    batch: Batch,
    /// Records of this partition before it.
    sequence: i64,
    /// The order in which batches were closed.
    number: u64,
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

/// One task's writer.
pub struct Sink {
    client: Client,
    plan: SinkPlan,
    topics: Vec<Topic>,
    in_flight: BTreeMap<i32, VecDeque<Sent>>,
    producer: (i64, i16),
    seed: u64,
    closed: u64,
}

impl Sink {
    /// A writer; `seed` spreads records without key differently for each task.
    ///
    /// # Errors
    /// No broker, or a topic that is gone.
    pub fn open(mut client: Client, plan: SinkPlan, seed: u64) -> Result<Self> {
        let settings = client.settings().clone();
        let producer = if plan.staging.is_none() && settings.idempotence {
            request::init_producer_id(&mut client)?
        } else {
            (NO_PRODUCER_ID, -1)
        };
        let mut sink = Self {
            client,
            topics: Vec::with_capacity(plan.targets.len()),
            in_flight: BTreeMap::new(),
            producer,
            seed,
            closed: 0,
            plan: SinkPlan {
                targets: Vec::new(),
                ..plan
            },
        };
        for target in plan.targets {
            let limit = settings.batch_bytes.min(target.batch_bytes_max);
            sink.topics.push(Topic {
                batches: Batches::new(
                    target.partitions.max(0) as usize,
                    settings.codec,
                    settings.level,
                    limit,
                ),
                sticky: Sticky::new(seed, target.partitions),
                leaders: Vec::new(),
                sequences: vec![0; target.partitions.max(0) as usize],
                written: BTreeMap::new(),
                target,
            });
        }
        sink.find_leaders()?;
        Ok(sink)
    }

    /// Adds the rows of one Arrow batch (columns as in Spark's Kafka sink).
    ///
    /// # Errors
    /// Rows that no record can be made of, and whatever the brokers refuse.
    pub fn write(&mut self, batch: &StructArray) -> Result<()> {
        let rows = Rows::of(batch)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as i64);
        let mut headers = Vec::new();
        for row in 0..rows.count {
            let topic = if self.plan.topic_column {
                self.topic_named(rows.topic(row))?
            } else {
                0
            };
            let (key, value) = (rows.key(row), rows.value(row));
            rows.headers(row, &mut headers)?;
            let mut partition = self.partition_of(topic, rows.partition(row), key)?;
            let bytes = record_bytes(key, value, &headers);
            while self.topics[topic]
                .batches
                .is_full_for(partition as usize, bytes)
            {
                self.flush(topic, partition)?;
                // A full batch moves rows without key on to another partition.
                partition = self.partition_of(topic, rows.partition(row), key)?;
            }
            let timestamp = rows.timestamp(row).unwrap_or(now);
            self.topics[topic]
                .batches
                .push(partition as usize, timestamp, key, value, &headers);
        }
        self.keep_within_memory()
    }

    /// Sends what is left, waits for every answer, and tells what was written: (topic id, partition) → what.
    ///
    /// # Errors
    /// As [`Sink::write`].
    pub fn finish(&mut self) -> Result<Vec<(Uuid, String, i32, Written)>> {
        for topic in 0..self.topics.len() {
            for partition in 0..self.topics[topic].batches.partitions() {
                self.flush(topic, partition as i32)?;
            }
        }
        let brokers: Vec<i32> = self.in_flight.keys().copied().collect();
        for broker in brokers {
            self.drain(broker, 0)?;
        }
        Ok(self
            .topics
            .iter()
            .flat_map(|topic| {
                topic.written.iter().map(|(partition, written)| {
                    (
                        topic.target.id,
                        topic.target.name.clone(),
                        *partition,
                        written.clone(),
                    )
                })
            })
            .collect())
    }

    fn topic_named(&mut self, name: Option<&str>) -> Result<usize> {
        let name = name.ok_or_else(|| {
            Error::Rows("a row has no topic: set the option topic or fill the column topic".into())
        })?;
        if let Some(index) = self.topics.iter().position(|t| t.target.name == name) {
            return Ok(index);
        }
        let settings = self.client.settings().clone();
        let found = self.client.topics(&[(Uuid::ZERO, name)])?.remove(0);
        let partitions = found.leaders.len();
        self.topics.push(Topic {
            batches: Batches::new(
                partitions,
                settings.codec,
                settings.level,
                settings.batch_bytes,
            ),
            sticky: Sticky::new(self.seed, partitions as i32),
            leaders: found.leaders,
            sequences: vec![0; partitions],
            written: BTreeMap::new(),
            target: Target {
                id: found.id,
                name: found.name,
                partitions: partitions as i32,
                batch_bytes_max: usize::MAX,
            },
        });
        Ok(self.topics.len() - 1)
    }

    #[inline]
    fn partition_of(&self, topic: usize, given: Option<i32>, key: Option<&[u8]>) -> Result<i32> {
        let topic = &self.topics[topic];
        let partitions = topic.target.partitions;
        match (given, key) {
            (Some(partition), _) if (0..partitions).contains(&partition) => Ok(partition),
            (Some(partition), _) => Err(Error::Rows(format!(
                "column partition is {partition}, but {} has {partitions} partitions",
                topic.target.name
            ))),
            (None, Some(key)) => Ok(partition_of_key(key, partitions.unsigned_abs()) as i32),
            (None, None) => Ok(topic.sticky.current()),
        }
    }

    fn keep_within_memory(&mut self) -> Result<()> {
        let limit = self.client.settings().buffer_bytes;
        for topic in 0..self.topics.len() {
            while self.topics[topic].batches.buffered > limit {
                let Some(partition) = self.topics[topic].batches.largest() else {
                    break;
                };
                self.flush(topic, partition as i32)?;
            }
        }
        Ok(())
    }

    /// Closes the batch of a partition and sends it.
    fn flush(&mut self, topic: usize, partition: i32) -> Result<()> {
        let at = partition as usize;
        let this = &mut self.topics[topic];
        let sequence = this.sequences[at];
        let (id, epoch) = self.producer;
        // Sequences of producers wrap to 0 after the largest int.
        let wrapped = (sequence & i64::from(i32::MAX)) as i32;
        let producer = (id != NO_PRODUCER_ID).then_some((id, epoch, wrapped));
        let Some(batch) = this.batches.seal(at, producer)? else {
            return Ok(());
        };
        this.sequences[at] += i64::from(batch.records);
        if this.sticky.current() == partition {
            this.sticky.next(this.target.partitions);
        }
        let written = this.written.entry(partition).or_insert_with(|| Written {
            first_offset: -1,
            last_offset: -1,
            ..Written::default()
        });
        written.records += batch.records as u64;
        written.payload += batch.payload;
        written.bytes += batch.bytes.len() as u64;
        written.batches += 1;
        written
            .crcs
            .extend_from_slice(request::crc_field(&batch.bytes));
        let sent = Sent {
            correlation_id: 0,
            version: 0,
            topic,
            partition,
            batch,
            sequence,
            number: self.closed,
        };
        self.closed += 1;
        self.dispatch(sent)
    }

    /// Sends a batch to its leader once there is room in the pipeline.
    fn dispatch(&mut self, sent: Sent) -> Result<()> {
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
    fn drain(&mut self, broker: i32, room: usize) -> Result<()> {
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
                self.acknowledge(&sent, base_offset);
                return Ok(Ok(()));
            }
            // A batch that was sent again and had arrived the first time.
            Ok(Answer {
                code: ErrorCode::DUPLICATE_SEQUENCE_NUMBER,
                ..
            }) => {
                self.acknowledge(&sent, -1);
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
        problem.code().is_retriable() && !matches!(problem, Error::Protocol { .. })
            || problem.code() == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
    }

    fn acknowledge(&mut self, sent: &Sent, base_offset: i64) {
        if base_offset < 0 {
            return;
        }
        if let Some(written) = self.topics[sent.topic].written.get_mut(&sent.partition) {
            if written.first_offset < 0 {
                written.first_offset = base_offset;
            }
            let last = base_offset + i64::from(sent.batch.records) - 1;
            written.last_offset = written.last_offset.max(last);
        }
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

    fn find_leaders(&mut self) -> Result<()> {
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
