//! Writes Arrow batches as records: which row goes to which partition, and when a batch is full. How batches reach their
//! brokers: `delivery`.

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
use delivery::Sent;
pub use request::Staging;
pub use transaction::Transaction;

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
    /// Produced in this transaction, which whoever began it ends; `None` = in none.
    pub transaction: Option<Transaction>,
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

impl Written {
    /// CRC-32C over the batches' own checksums: what IngestCommit lists.
    #[must_use]
    pub fn crc(&self) -> u32 {
        crc32c(&self.crcs)
    }
}

/// One task's writer.
pub struct Sink {
    client: Client,
    /// Asks the transaction's coordinator, over connections on which no batch is in flight.
    coordinators: Client,
    settings: ProduceSettings,
    plan: SinkPlan,
    topics: Vec<Topic>,
    /// By broker, in the order in which answers come.
    in_flight: BTreeMap<i32, VecDeque<(InFlight, Sent)>>,
    producer: (i64, i16),
    seed: u64,
    closed: u64,
}

impl Sink {
    /// A writer; `seed` spreads records without key differently for each task.
    ///
    /// # Errors
    /// No broker, or a topic that is gone.
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
            let timestamp = rows.timestamp(row)?.unwrap_or(now);
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

    /// Closes the batch of a partition and sends it.
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
