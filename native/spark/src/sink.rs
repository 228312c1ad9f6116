//! Writing of Arrow batches as records: selects the partition of each row, and closes full batches. `delivery` sends
//! batches to their brokers.

mod delivery;
mod request;
mod transaction;

use std::collections::{BTreeMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::StructArray;
use pybroker_client::{Client, InFlight};
use pybroker_model::{NO_PRODUCER_ID, Uuid, crc32c, partition_of_key};

use crate::encode::{Batches, Rows, record_bytes};
use crate::error::{Error, Result};
use crate::partitioner::Sticky;
use crate::settings::{ProduceSettings, Settings};
use delivery::BatchInFlight;
pub use request::StagingTarget;
pub use transaction::Transaction;

/// A topic to write to, as the driver resolved it before the job began.
#[derive(Clone, Debug)]
pub struct Target {
    /// The topic's id, so that rows never go to a new topic of the same name. Zero if the broker has no ids.
    pub id: Uuid,
    /// The topic's name.
    pub name: String,
    /// Number of partitions at the start of the job. With this fixed number, every attempt sends a key to the same
    /// partition.
    pub partitions: i32,
    /// `max.message.bytes`; batches stay below it.
    pub batch_bytes_max: usize,
}

/// Destination of the rows.
#[derive(Clone, Debug)]
pub struct SinkPlan {
    /// The topics. If there is a column `topic`, it selects one of them for each row; otherwise there is only one.
    pub targets: Vec<Target>,
    /// Whether the column `topic` selects the topic, because no topic was set for all rows.
    pub topic_column: bool,
    /// If set, rows are staged outside the log until the job commits. `None` means that they are produced directly.
    pub staging: Option<StagingTarget>,
    /// Transaction of the produced rows, which the driver begins and ends. `None` means no transaction.
    pub transaction: Option<Transaction>,
}

/// Summary of the rows written to one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionSummary {
    /// Number of records.
    pub records: u64,
    /// Bytes of keys and values.
    pub payload: u64,
    /// Bytes of record batches as sent.
    pub bytes: u64,
    /// The batches' own checksums in order, 4 bytes each.
    pub crcs: Vec<u8>,
    /// Number of batches.
    pub batches: u64,
    /// Offset of the first record, or −1 if unknown (staged, or `acks=0`).
    pub first_offset: i64,
    /// Offset of the last record, or −1 if unknown.
    pub last_offset: i64,
}

struct Topic {
    target: Target,
    batches: Batches,
    sticky: Sticky,
    leaders: Vec<(i32, i32)>,
    /// Number of records in closed batches, by partition.
    sequences: Vec<i64>,
    written: BTreeMap<i32, PartitionSummary>,
}

impl Topic {
    fn new(target: Target, settings: &ProduceSettings, seed: u64) -> Self {
        let partitions = target.partitions.max(0) as usize;
        let limit = settings.batch_bytes.min(target.batch_bytes_max);
        Self {
            batches: Batches::new(partitions, settings.codec, settings.level, limit),
            sticky: Sticky::new(seed, target.partitions),
            leaders: Vec::new(),
            sequences: vec![0; partitions],
            written: BTreeMap::new(),
            target,
        }
    }
}

impl PartitionSummary {
    /// Return the CRC-32C over the batches' own checksums, as IngestCommit lists it.
    #[must_use]
    pub fn crc(&self) -> u32 {
        crc32c(&self.crcs)
    }
}

/// Writer of one task.
pub struct Sink {
    client: Client,
    /// Client for requests to the transaction's coordinator. Its connections carry no batches.
    coordinators: Client,
    settings: ProduceSettings,
    plan: SinkPlan,
    topics: Vec<Topic>,
    /// Requests in flight by broker, in the order of their responses.
    in_flight: BTreeMap<i32, VecDeque<(InFlight, BatchInFlight)>>,
    producer: (i64, i16),
    seed: u64,
    closed: u64,
}

impl Sink {
    /// Open a writer. Each task uses another `seed`, so that records without a key are spread differently.
    ///
    /// # Errors
    ///
    /// If no broker is reachable, or a topic does not exist.
    pub fn open(settings: &Settings, plan: SinkPlan, seed: u64) -> Result<Self> {
        let mut client = Client::new(settings.client.clone());
        let coordinators = Client::new(settings.client.clone());
        let settings = settings.produce.clone();
        let producer = if let Some(transaction) = &plan.transaction {
            (transaction.producer_id, transaction.producer_epoch)
        } else if plan.staging.is_none() && settings.idempotence {
            request::init_producer_id(&mut client)?
        } else {
            (NO_PRODUCER_ID, -1)
        };
        let mut sink = Self {
            client,
            coordinators,
            settings,
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
            sink.topics.push(Topic::new(target, &sink.settings, seed));
        }
        sink.find_leaders()?;
        Ok(sink)
    }

    /// Add the rows of one Arrow batch (columns as in Spark's Kafka sink).
    ///
    /// # Errors
    ///
    /// If a row cannot become a record, or a broker returns an error.
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
                // A full batch makes the partitioner choose another partition for rows without key.
                partition = self.partition_of(topic, rows.partition(row), key)?;
            }
            let timestamp = rows.timestamp(row)?.unwrap_or(now);
            self.topics[topic]
                .batches
                .push(partition as usize, timestamp, key, value, &headers);
        }
        self.keep_within_memory()
    }

    /// Send the remaining rows, wait for every response, and return (topic id, name, partition, summary).
    ///
    /// # Errors
    ///
    /// Like [`Sink::write`].
    pub fn finish(&mut self) -> Result<Vec<(Uuid, String, i32, PartitionSummary)>> {
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
        let found = self.client.topics(&[(Uuid::ZERO, name)])?.remove(0);
        let target = Target {
            id: found.id,
            name: found.name,
            partitions: found.leaders.len() as i32,
            batch_bytes_max: request::batch_bytes_max(&mut self.client, name)?,
        };
        let mut topic = Topic::new(target, &self.settings, self.seed);
        topic.leaders = found.leaders;
        self.topics.push(topic);
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
        let limit = self.settings.buffer_bytes;
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

    /// Close the batch of a partition and send it.
    fn flush(&mut self, topic: usize, partition: i32) -> Result<()> {
        let at = partition as usize;
        let this = &mut self.topics[topic];
        let sequence = this.sequences[at];
        let (id, epoch) = self.producer;
        // Sequences of producers wrap to 0 after the largest int.
        let wrapped = (sequence & i64::from(i32::MAX)) as i32;
        let producer = (id != NO_PRODUCER_ID).then_some((id, epoch, wrapped));
        let transactional = self.plan.transaction.is_some();
        let Some(batch) = this.batches.seal(at, producer, transactional)? else {
            return Ok(());
        };
        this.sequences[at] += i64::from(batch.records);
        if this.sticky.current() == partition {
            this.sticky.next(this.target.partitions);
        }
        if let Some(transaction) = &self.plan.transaction
            && !this.written.contains_key(&partition)
        {
            let client = &mut self.coordinators;
            transaction::add_partition(client, transaction, &this.target, partition)?;
        }
        let written = this
            .written
            .entry(partition)
            .or_insert_with(|| PartitionSummary {
                first_offset: -1,
                last_offset: -1,
                ..PartitionSummary::default()
            });
        written.records += batch.records as u64;
        written.payload += batch.payload;
        written.bytes += batch.bytes.len() as u64;
        written.batches += 1;
        written
            .crcs
            .extend_from_slice(request::crc_field(&batch.bytes));
        let sent = BatchInFlight {
            topic,
            partition,
            batch,
            sequence,
            number: self.closed,
        };
        self.closed += 1;
        self.dispatch(sent)
    }
}
