//! Reading of an offset range of one partition. The source fetches the next records while it decodes the previous ones.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use pybroker_client::{self as client, Client, InFlight, Node};
use pybroker_model::{BatchError, BatchHeader, Batches, Uuid};
use pybroker_protocol::hot::fetch_request::{self, FetchPartition, FetchRequest, FetchTopic};
use pybroker_protocol::hot::fetch_response::{AbortedTransaction, FetchResponse};
use pybroker_protocol::primitives::Span;
use pybroker_protocol::{ApiKey, ErrorCode};

use crate::decode::{Column, Decoder, Place};
use crate::error::{Error, Result};
use crate::settings::{FetchSettings, Settings};

/// Supported versions of Fetch. Version 4 introduces message format 2; from version 13 topics are named by id.
const FETCH: RangeInclusive<i16> = 4..=17;
/// Maximum time without records before the end of the range. A new leader may still have to raise its high watermark.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of retries of errors that are rarely transient: unknown topics, damaged records.
const TRIES: u32 = 3;

/// Records and columns to read.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// The topic's id, or zero if the broker has no ids.
    pub topic_id: Uuid,
    /// The topic's name.
    pub topic: String,
    /// The cluster's id, for the column `cluster_id`.
    pub cluster_id: String,
    /// The partition.
    pub partition: i32,
    /// First offset.
    pub start: i64,
    /// Offset after the last record to read.
    pub end: i64,
    /// The columns to return.
    pub columns: Vec<Column>,
}

/// An iterator of Arrow batches over one range.
pub struct Source {
    client: Client,
    settings: FetchSettings,
    plan: SourcePlan,
    decoder: Decoder,
    leader: Node,
    /// Offset up to which the range is decoded.
    position: i64,
    /// End of the last complete batch, or 0 if there is none yet.
    batches_end: i64,
    pending: Option<InFlight>,
    answer: Option<Answer>,
    started: Instant,
    /// The last error since the last rows arrived, and how often it has occurred.
    failures: (ErrorCode, u32),
    aborted: AbortedFilter,
}

/// A response with records that are not decoded yet.
struct Answer {
    broker: String,
    body: Vec<u8>,
    /// Range of the records in the body.
    records: Range<usize>,
    /// Whether the first batch is verified and partly decoded.
    in_batch: bool,
    /// Offset in the request.
    asked: i64,
    /// High watermark, which ends the readable records.
    high_watermark: i64,
}

/// Aborted transactions, whose records are hidden from read_committed.
#[derive(Default)]
struct AbortedFilter {
    /// Aborted transactions that have not begun, by first offset, descending. The next one to begin is last.
    waiting: Vec<AbortedTransaction>,
    open: BTreeSet<i64>,
}

impl AbortedFilter {
    /// Replace the known transactions. Each response lists every aborted transaction that overlaps its offsets,
    /// including transactions that began earlier.
    fn learn(&mut self, transactions: Option<Vec<AbortedTransaction>>) {
        self.open.clear();
        self.waiting = transactions.unwrap_or_default();
        self.waiting
            .sort_by_key(|each| core::cmp::Reverse(each.first_offset));
    }

    /// Return whether the batch must be hidden.
    fn hides(&mut self, header: &BatchHeader) -> bool {
        while let Some(next) = self.waiting.last() {
            if next.first_offset > header.last_offset() {
                break;
            }
            self.open.insert(next.producer_id);
            self.waiting.pop();
        }
        if header.is_control() {
            // The marker ends the transaction; later batches of this producer belong to another one.
            self.open.remove(&header.producer_id);
            return true;
        }
        header.is_transactional() && self.open.contains(&header.producer_id)
    }
}

impl Source {
    /// Create a reader; it connects when the first rows are requested.
    #[must_use]
    pub fn new(settings: &Settings, plan: SourcePlan) -> Self {
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
            client: Client::new(settings.client.clone()),
            settings: settings.fetch.clone(),
            leader: Node::Any,
            position: plan.start,
            batches_end: 0,
            plan,
            pending: None,
            answer: None,
            started: Instant::now(),
            failures: (ErrorCode::NONE, 0),
            aborted: AbortedFilter::default(),
        }
    }

    /// Return the offset of the next row.
    #[must_use]
    pub const fn position(&self) -> i64 {
        self.position
    }

    /// Return the next rows; `None` at the end of the range.
    ///
    /// # Errors
    ///
    /// If the network fails, the broker returns an error (an unknown topic id, an offset out of range), or a batch is
    /// damaged.
    pub fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        self.started = Instant::now();
        // Return rows when they arrive, while the next response is in flight.
        while self.position < self.plan.end && self.decoder.rows() == 0 {
            let before = self.position;
            let done = self.advance();
            if self.position > before {
                (self.failures, self.started) = ((ErrorCode::NONE, 0), Instant::now());
            }
            match done {
                Ok(()) if self.position == before && self.started.elapsed() > PATIENCE => {
                    return Err(self.ended_early());
                }
                Ok(()) => {}
                Err(problem) => self.retry(problem)?,
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
            ErrorCode::OFFSET_OUT_OF_RANGE,
            self.describe(),
            Some(&format!(
                "the partition ends before offset {}, the end of the range",
                self.plan.end
            )),
        )
    }

    /// After a transient error, find the leader and continue at the current position.
    fn retry(&mut self, problem: Error) -> Result<()> {
        // Drop the connection even if no retry follows, because the pending response belongs to a later offset. If no
        // leader is known, no response is pending.
        if self.leader != Node::Any {
            self.client.drop_connection(self.leader);
        }
        self.leader = Node::Any;
        (self.pending, self.answer) = (None, None);
        self.decoder.leave();
        let code = problem.code();
        if self.failures.0 != code {
            self.failures = (code, 0);
        }
        self.failures.1 += 1;
        let patient = match code {
            // This broker does not know the topic id (any more). Metadata shows whether the cluster does.
            ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                self.failures.1 <= TRIES
            }
            // A retry helps if the bytes were damaged in transit, but not if they are damaged in the log.
            ErrorCode::CORRUPT_MESSAGE => self.failures.1 <= TRIES,
            _ => {
                problem.may_pass()
                    && self.started.elapsed() < self.client.settings().delivery_timeout
            }
        };
        if !patient {
            return Err(problem);
        }
        std::thread::sleep(self.client.settings().retry_backoff);
        Ok(())
    }

    fn find_leader(&mut self) -> Result<()> {
        let wanted = [(self.plan.topic_id, self.plan.topic.as_str())];
        let topics = self.client.topics(&wanted)?;
        let leader = topics
            .first()
            .and_then(|topic| topic.leaders.get(self.plan.partition as usize));
        let code = match leader {
            Some(&(leader, _)) if leader >= 0 => {
                self.leader = Node::Broker(leader);
                return Ok(());
            }
            Some(_) => ErrorCode::LEADER_NOT_AVAILABLE,
            None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        };
        Err(Error::refused(code, self.describe(), None))
    }

    fn send(&mut self, offset: i64) -> Result<InFlight> {
        let FetchSettings {
            bytes,
            wait_ms,
            read_committed,
            ..
        } = self.settings;
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
            isolation_level: i8::from(read_committed),
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
                fetch_offset: offset,
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
        Ok(connection.send(ApiKey::Fetch as i16, version, &[&body])?)
    }

    /// Decode the received records. If there are none, wait for a response first.
    fn advance(&mut self) -> Result<()> {
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => self.fetch().map_err(|problem| match problem {
                Error::Client(client::Error::Protocol { broker, problem }) => {
                    self.damaged(broker, problem)
                }
                other => other,
            })?,
        };
        match self.decode(&mut answer) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.answer = Some(answer);
                Ok(())
            }
            Err(problem) => Err(self.damaged(answer.broker, problem.to_string())),
        }
    }

    fn damaged(&self, broker: String, problem: String) -> Error {
        Error::Damaged {
            what: self.describe(),
            broker,
            problem,
        }
    }

    /// Receive a response, and send the next request.
    fn fetch(&mut self) -> Result<Answer> {
        if self.leader == Node::Any {
            self.find_leader()?;
        }
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.send(self.position)?,
        };
        let connection = self.client.connection(self.leader)?;
        let broker = connection.address().to_owned();
        let body = connection.receive(pending)?;
        let mut response = FetchResponse::decode(&body, pending.version())
            .map_err(|error| client::Error::decode(&broker, error))?;
        if response.error_code != 0 {
            let code = ErrorCode(response.error_code);
            return Err(Error::refused(code, self.describe(), None));
        }
        let partition = response
            .topics
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions)
            .find(|partition| partition.head.partition == self.plan.partition)
            .ok_or_else(|| client::Error::Protocol {
                broker: broker.clone(),
                problem: "a Fetch answer without the partition".into(),
            })?;
        let head = &mut partition.head;
        if head.error_code != 0 {
            let range = format!("the log starts at {}", head.log_start_offset);
            let out_of_range = head.error_code == ErrorCode::OFFSET_OUT_OF_RANGE.0;
            let detail = (out_of_range && head.log_start_offset >= 0).then_some(range.as_str());
            let code = ErrorCode(head.error_code);
            return Err(Error::refused(code, self.describe(), detail));
        }
        self.aborted.learn(head.aborted_transactions.take());
        let high_watermark = head.high_watermark;
        let records = partition.records.unwrap_or_default();
        self.ask_ahead(records);
        // The records are a slice of the body, so the difference of the two pointers is their position in it.
        let start = records.as_ptr().addr().wrapping_sub(body.as_ptr().addr());
        let records = if records.is_empty() {
            0..0
        } else {
            start..start + records.len()
        };
        Ok(Answer {
            broker,
            body,
            records,
            in_batch: false,
            asked: self.position,
            high_watermark,
        })
    }

    /// Request the next records before the received ones are decoded, so that the broker works meanwhile. The next call
    /// reports a failure.
    fn ask_ahead(&mut self, records: &[u8]) {
        let next = Batches::new(records)
            .map_while(core::result::Result::ok)
            .map(|(header, _)| header.next_offset())
            .max();
        if let Some(next) = next.filter(|next| (self.position + 1..self.plan.end).contains(next)) {
            self.pending = self.send(next).ok();
            if self.pending.is_none() {
                self.client.drop_connection(self.leader);
            }
        }
    }

    /// Decode a response until there are enough rows. Return whether all of it was decoded.
    fn decode(&mut self, answer: &mut Answer) -> core::result::Result<bool, BatchError> {
        let end = self.plan.end;
        while self.position < end {
            if self.decoder.is_full() {
                return Ok(false);
            }
            let records = &answer.body[answer.records.clone()];
            let Some(batch) = Batches::new(records).next() else {
                // The response ends with a truncated batch, which the next response contains completely. If the first
                // batch is truncated, return an error, because it would never be complete.
                return if self.position == answer.asked && !records.is_empty() {
                    Err(BatchError::BadHeader("the batch is longer than the answer"))
                } else {
                    Ok(true)
                };
            };
            let (header, bytes) = batch?;
            let settings = &self.settings;
            let hidden = if answer.in_batch {
                false
            } else {
                check_place(&header, self.batches_end..answer.high_watermark)?;
                if settings.check_crcs {
                    header.check_crc(bytes)?;
                }
                if settings.read_committed {
                    self.aborted.hides(&header)
                } else {
                    header.is_control()
                }
            };
            if hidden {
                self.position = self.position.max(header.next_offset());
            } else {
                answer.in_batch = true;
                let position = &mut self.position;
                if !self.decoder.push(&header, bytes, position, end)? {
                    return Ok(false);
                }
                answer.in_batch = false;
            }
            self.batches_end = header.next_offset();
            answer.records.start += bytes.len();
        }
        Ok(true)
    }
}

/// Check that a batch's offsets are between the previous batch and the high watermark. The checksum does not cover the
/// base offset.
fn check_place(header: &BatchHeader, place: Range<i64>) -> core::result::Result<(), BatchError> {
    header.check()?;
    if header.base_offset < place.start {
        return Err(BatchError::BadHeader(
            "its offsets are not behind those of the batch before",
        ));
    }
    if header.next_offset() > place.end {
        return Err(BatchError::BadHeader(
            "its offsets are beyond the high watermark",
        ));
    }
    Ok(())
}
