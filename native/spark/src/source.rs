//! Reads one range of offsets of one partition: Fetch ahead, decode behind.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use pybroker_model::{BatchHeader, Batches, Uuid};
use pybroker_protocol::hot::fetch_request::{self, FetchPartition, FetchRequest, FetchTopic};
use pybroker_protocol::hot::fetch_response::{AbortedTransaction, FetchResponse};
use pybroker_protocol::primitives::Span;
use pybroker_protocol::{ApiKey, ErrorCode};

use crate::client::{Client, Node};
use crate::decode::{Column, Decoder, Place};
use crate::error::{Error, Result};

/// Versions of Fetch spoken: from 4 (message format 2) on; from 13 by topic id.
const FETCH: RangeInclusive<i16> = 4..=17;
/// Collected bytes that make up an Arrow batch: well below the 2 GiB that 32-bit offsets reach.
const ROWS_BYTES: usize = 8 << 20;
/// How long a range may give nothing before its end: a follower that has just become leader catches up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which records to read, and what of them.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// The topic's id; zero = the broker knows none.
    pub topic_id: Uuid,
    /// Its name.
    pub topic: String,
    /// The cluster's id, for the column of that name.
    pub cluster_id: String,
    /// The partition.
    pub partition: i32,
    /// First offset.
    pub start: i64,
    /// One past the last offset.
    pub end: i64,
    /// The columns wanted.
    pub columns: Vec<Column>,
}

/// An iterator of Arrow batches over one range.
pub struct Source {
    client: Client,
    plan: SourcePlan,
    decoder: Decoder,
    leader: Node,
    position: i64,
    pending: Option<Pending>,
    started: Instant,
    failures: u32,
    aborted: Aborted,
}

struct Pending {
    correlation_id: i32,
    version: i16,
}

/// Transactions that ended in an abort: their records are not for readers of committed records.
#[derive(Default)]
struct Aborted {
    /// Sorted by first offset, descending: the next one to begin is last.
    waiting: Vec<AbortedTransaction>,
    open: BTreeSet<i64>,
}

impl Aborted {
    fn learn(&mut self, transactions: Option<Vec<AbortedTransaction>>) {
        if let Some(transactions) = transactions {
            self.waiting = transactions;
            self.waiting
                .sort_by_key(|each| core::cmp::Reverse(each.first_offset));
        }
    }

    /// Whether the batch is to be left out.
    fn hides(&mut self, header: &BatchHeader) -> bool {
        while let Some(next) = self.waiting.last() {
            if next.first_offset > header.last_offset() {
                break;
            }
            self.open.insert(next.producer_id);
            self.waiting.pop();
        }
        if header.is_control() {
            // The marker ends the transaction; what follows of this producer is another one.
            self.open.remove(&header.producer_id);
            return true;
        }
        header.is_transactional() && self.open.contains(&header.producer_id)
    }
}

impl Source {
    /// A reader; connects when the first rows are asked for.
    #[must_use]
    pub fn new(client: Client, plan: SourcePlan) -> Self {
        let place = Place {
            topic: plan.topic.clone(),
            topic_id: if plan.topic_id == Uuid::ZERO {
                String::new()
            } else {
                plan.topic_id.to_string()
            },
            cluster_id: plan.cluster_id.clone(),
            partition: plan.partition,
        };
        Self {
            decoder: Decoder::new(&plan.columns, place),
            client,
            leader: Node::Any,
            position: plan.start,
            plan,
            pending: None,
            started: Instant::now(),
            failures: 0,
            aborted: Aborted::default(),
        }
    }

    /// The offset that is read next.
    #[must_use]
    pub const fn position(&self) -> i64 {
        self.position
    }

    /// The next rows; `None` at the end of the range.
    ///
    /// # Errors
    /// The network, a refusal (a topic id that is gone, an offset that is not there any more), damaged batches.
    pub fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        while self.position < self.plan.end && self.decoder.bytes() < ROWS_BYTES {
            let rows = self.decoder.rows();
            match self.fetch() {
                Ok(true) => (self.failures, self.started) = (0, Instant::now()),
                Ok(false) if self.started.elapsed() > PATIENCE => return Err(self.ended_early()),
                Ok(false) => {}
                Err(problem) => self.retry(problem)?,
            }
            // Rows are given on as they come while the next answer is on its way.
            if self.decoder.rows() > rows {
                break;
            }
        }
        if self.decoder.rows() == 0 {
            return Ok(None);
        }
        let rows = self
            .decoder
            .take()
            .map_err(|problem| Error::Rows(format!("{}: {problem}", self.describe())))?;
        Ok(Some(rows))
    }

    fn describe(&self) -> String {
        format!(
            "Fetch {} ({}) partition {} at offset {}",
            self.plan.topic, self.plan.topic_id, self.plan.partition, self.position
        )
    }

    fn ended_early(&self) -> Error {
        Error::refused(
            ErrorCode::OFFSET_OUT_OF_RANGE.0,
            self.describe(),
            Some(&format!(
                "the partition ends before offset {}, the end of the range",
                self.plan.end
            )),
        )
    }

    /// Finds the leader and starts over after something that may pass.
    fn retry(&mut self, problem: Error) -> Result<()> {
        let patient = match problem.code() {
            // The id is not known here (any more): Metadata tells whether it is anywhere.
            ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                self.failures < 3
            }
            code => {
                code.is_retriable()
                    && self.started.elapsed() < self.client.settings().delivery_timeout
            }
        };
        if !patient {
            return Err(problem);
        }
        self.failures += 1;
        self.client.drop_connection(self.leader);
        self.pending = None;
        self.leader = Node::Any;
        std::thread::sleep(self.client.settings().retry_backoff);
        Ok(())
    }

    fn find_leader(&mut self) -> Result<()> {
        let wanted = [(self.plan.topic_id, self.plan.topic.as_str())];
        let topics = self.client.topics(&wanted)?;
        let leader = topics
            .first()
            .and_then(|topic| topic.leaders.get(self.plan.partition as usize))
            .ok_or_else(|| {
                Error::refused(
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
                    self.describe(),
                    None,
                )
            })?;
        self.leader = Node::Broker(leader.0);
        Ok(())
    }

    fn send(&mut self) -> Result<Pending> {
        let settings = self.client.settings();
        let isolation_level = i8::from(settings.read_committed);
        let (wait_ms, bytes) = (settings.fetch_wait_ms, settings.fetch_bytes);
        let connection = self.client.connection(self.leader)?;
        let mut version = connection.version_of(ApiKey::Fetch, FETCH)?;
        if self.plan.topic_id == Uuid::ZERO {
            version = version.min(fetch_request::BY_ID - 1);
        }
        let name = self.plan.topic.as_bytes();
        let request = FetchRequest {
            max_wait_ms: wait_ms,
            min_bytes: 1,
            max_bytes: bytes,
            isolation_level,
            topics: vec![FetchTopic {
                name: Span {
                    start: 0,
                    end: name.len() as u32,
                },
                topic_id: self.plan.topic_id,
                partitions_start: 0,
                partitions_end: 1,
            }],
            partitions: vec![FetchPartition {
                partition: self.plan.partition,
                current_leader_epoch: -1,
                fetch_offset: self.position,
                last_fetched_epoch: -1,
                log_start_offset: -1,
                partition_max_bytes: bytes,
                replica_directory_id: Uuid::ZERO,
                high_watermark: i64::MAX,
            }],
            ..FetchRequest::default()
        };
        let mut body = Vec::new();
        request.encode(name, version, &mut body);
        let flexible = version >= fetch_request::FLEXIBLE;
        let correlation_id = connection.send(ApiKey::Fetch as i16, version, flexible, &[&body])?;
        Ok(Pending {
            correlation_id,
            version,
        })
    }

    /// One answer into the decoder; whether it brought us on.
    fn fetch(&mut self) -> Result<bool> {
        if self.leader == Node::Any {
            self.find_leader()?;
        }
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.send()?,
        };
        let connection = self.client.connection(self.leader)?;
        let broker = connection.address().to_owned();
        let frame = connection.receive()?;
        let flexible = pending.version >= fetch_request::FLEXIBLE;
        let body = connection.body(frame, pending.correlation_id, flexible)?;
        let mut response = FetchResponse::decode(&body, pending.version)
            .map_err(|error| Error::decode(&broker, error))?;
        if response.error_code != 0 {
            return Err(Error::refused(response.error_code, self.describe(), None));
        }
        let partition = response
            .topics
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions)
            .next()
            .ok_or_else(|| Error::Protocol {
                broker: broker.clone(),
                problem: "a Fetch answer without the partition".into(),
            })?;
        let head = &mut partition.head;
        if head.error_code != 0 {
            let range = format!("the log starts at {}", head.log_start_offset);
            let out_of_range = head.error_code == ErrorCode::OFFSET_OUT_OF_RANGE.0;
            let detail = (out_of_range && head.log_start_offset >= 0).then_some(range.as_str());
            return Err(Error::refused(head.error_code, self.describe(), detail));
        }
        self.aborted.learn(head.aborted_transactions.take());
        let records = partition.records.unwrap_or_default();
        self.take_records(records, &broker)
    }

    fn take_records(&mut self, records: &[u8], broker: &str) -> Result<bool> {
        let damaged = |error| Error::batch(broker, &error);
        let (start, end) = (self.position, self.plan.end);
        let mut next = start;
        for batch in Batches::new(records) {
            let (header, _) = batch.map_err(damaged)?;
            next = next.max(header.next_offset());
        }
        self.position = next;
        if next > start && next < end {
            // Ask for what follows before decoding: the broker works meanwhile. A failure shows at the next call.
            self.pending = self.send().ok();
            if self.pending.is_none() {
                self.client.drop_connection(self.leader);
            }
        }
        for batch in Batches::new(records) {
            let (header, bytes) = batch.map_err(damaged)?;
            if self.client.settings().check_crcs {
                header.check_crc(bytes).map_err(damaged)?;
            }
            let hidden = if self.client.settings().read_committed {
                self.aborted.hides(&header)
            } else {
                header.is_control()
            };
            if !hidden {
                self.decoder
                    .push(&header, bytes, start, end)
                    .map_err(damaged)?;
            }
        }
        Ok(next > start)
    }
}
