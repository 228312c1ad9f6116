//! Reads one range of offsets of one partition: Fetch ahead, decode behind.

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

/// Versions of Fetch spoken: from 4 (message format 2) on; from 13 by topic id.
const FETCH: RangeInclusive<i16> = 4..=17;
/// How long a range may give nothing before its end: a follower that has just become leader catches up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often what may pass, but mostly does not, is asked for again: a topic that nobody knows, damaged records.
const TRIES: u32 = 3;

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
    settings: FetchSettings,
    plan: SourcePlan,
    decoder: Decoder,
    leader: Node,
    /// Everything of the range before it is decoded, and nothing from it on.
    position: i64,
    /// Where the last batch ended that was read whole; 0 = there was none.
    batches_end: i64,
    pending: Option<InFlight>,
    answer: Option<Answer>,
    started: Instant,
    /// The last failure since rows came, and how often it came.
    failures: (ErrorCode, u32),
    aborted: Aborted,
}

/// An answer with records that are not decoded yet.
struct Answer {
    broker: String,
    body: Vec<u8>,
    /// Where they are in the body.
    records: Range<usize>,
    /// The first of them is checked, and some of its records are decoded.
    in_batch: bool,
    /// The offset that was asked for.
    asked: i64,
    /// What a broker gives out ends there.
    high_watermark: i64,
}

/// Transactions that ended in an abort: their records are not for readers of committed records.
#[derive(Default)]
struct Aborted {
    /// Sorted by first offset, descending: the next one to begin is last.
    waiting: Vec<AbortedTransaction>,
    open: BTreeSet<i64>,
}

impl Aborted {
    /// An answer tells of every aborted transaction that its offsets touch, also of those that began before them:
    /// what is known from the answers before is out of date.
    fn learn(&mut self, transactions: Option<Vec<AbortedTransaction>>) {
        self.open.clear();
        self.waiting = transactions.unwrap_or_default();
        self.waiting
            .sort_by_key(|each| core::cmp::Reverse(each.first_offset));
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
        self.started = Instant::now();
        // Rows are given on as they come while the next answer is on its way.
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

    /// Finds the leader and starts over at the position after something that may pass.
    fn retry(&mut self, problem: Error) -> Result<()> {
        // Also if that is the end: what is on its way belongs to an offset further on. Without a leader nothing is.
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
            // The id is not known here (any more): Metadata tells whether it is anywhere.
            ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                self.failures.1 <= TRIES
            }
            // Bytes that changed on the way come right the next time; those that changed in the log do not.
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

    /// Decodes what has come, or waits for it first.
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

    /// One answer, and the request for what follows it.
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
        // The records are borrowed from the body: their place in it is the distance of the two.
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

    /// Asks for what follows these records before they are decoded: the broker works meanwhile. A failure shows at the
    /// next call.
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

    /// An answer into the decoder, until there are enough rows; whether that was all of it.
    fn decode(&mut self, answer: &mut Answer) -> core::result::Result<bool, BatchError> {
        let end = self.plan.end;
        while self.position < end {
            if self.decoder.is_full() {
                return Ok(false);
            }
            let records = &answer.body[answer.records.clone()];
            let Some(batch) = Batches::new(records).next() else {
                // A cut batch at the end comes again, whole; if it is the first, nothing would ever come.
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

/// Checks offsets, which the checksum of a batch does not cover: between the batch before and the high watermark.
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
