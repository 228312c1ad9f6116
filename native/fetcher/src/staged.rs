//! Copies of staged ingests to other replicas: the leader sends records and waits for the response.
//!
//! It keeps a few connections to each broker, as many as appends wait in parallel.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pybroker_client::{Connection, ConnectionSettings, Error};
use pybroker_protocol::hot::ingest_append::{
    IngestAppendRequest, IngestAppendResponse, encode_one,
};
use pybroker_protocol::{ApiKey, ErrorCode};
use pybroker_replica::{StagedChunk, StagedCopies};

/// Version of IngestAppend among brokers.
const VERSION: i16 = 0;
/// Maximum number of idle connections kept to each broker.
const KEPT: usize = 4;

/// Sends staged records to other brokers.
pub struct StagedSender {
    settings: ConnectionSettings,
    brokers: Mutex<BTreeMap<i32, Arc<To>>>,
}

/// Address and idle connections of a broker.
struct To {
    address: String,
    idle: Mutex<Vec<Connection>>,
}

impl std::fmt::Debug for StagedSender {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StagedSender")
            .finish_non_exhaustive()
    }
}

impl StagedSender {
    /// Return a sender without known brokers.
    #[must_use]
    pub const fn new(settings: ConnectionSettings) -> Self {
        Self {
            settings,
            brokers: Mutex::new(BTreeMap::new()),
        }
    }

    /// Set the inter-broker address of a broker.
    pub fn place(&self, broker: i32, address: &str) {
        let mut brokers = self.brokers.lock();
        if brokers
            .get(&broker)
            .is_none_or(|known| known.address != address)
        {
            let to = To {
                address: address.to_owned(),
                idle: Mutex::default(),
            };
            brokers.insert(broker, Arc::new(to));
        }
    }

    fn call(&self, to: &To, chunk: &StagedChunk<'_>) -> Result<i64, Error> {
        let head = IngestAppendRequest {
            topic_id: chunk.name.topic_id.uuid(),
            ingest_id: &chunk.name.ingest_id,
            batch_id: chunk.name.batch_id,
            epoch: chunk.epoch,
            writer: chunk.writer,
            attempt: chunk.attempt,
            partitions: Vec::new(),
        };
        let (before, after) =
            encode_one(&head, chunk.partition, chunk.sequence, chunk.records.len());
        let body = [&before[..], chunk.records, &after[..]];
        let (mut connection, kept) = match to.idle.lock().pop() {
            Some(kept) => (kept, true),
            None => (Connection::open(&to.address, &self.settings)?, false),
        };
        let mut answer = exchange(&mut connection, &body);
        if kept && answer.is_err() {
            // The broker may have closed the idle connection. Sending the chunk again is safe, because the broker skips
            // records that it has already staged.
            connection = Connection::open(&to.address, &self.settings)?;
            answer = exchange(&mut connection, &body);
        }
        let answer = answer?;
        let mut idle = to.idle.lock();
        if idle.len() < KEPT {
            idle.push(connection);
        }
        drop(idle);
        read(&to.address, &answer)
    }
}

fn exchange(connection: &mut Connection, body: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let sent = connection.send(ApiKey::IngestAppend.code(), VERSION, body)?;
    connection.receive(sent)
}

/// Decode the number of records that the other broker has staged.
fn read(address: &str, answer: &[u8]) -> Result<i64, Error> {
    let answer = IngestAppendResponse::decode(answer);
    let answer = answer.map_err(|error| Error::decode(address, error))?;
    let part = answer.partitions.first();
    let (code, message) = match part {
        Some(part) if answer.error_code == 0 => (part.error_code, &part.error_message),
        _ => (answer.error_code, &answer.error_message),
    };
    match (ErrorCode(code), part) {
        (ErrorCode::NONE | ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, Some(part)) => {
            Ok(part.next_sequence)
        }
        (error, _) => {
            let what = format!("staging at {address}");
            Err(Error::refused(error, what, message.as_deref()))
        }
    }
}

impl StagedCopies for StagedSender {
    fn send(&self, broker: i32, chunk: &StagedChunk<'_>) -> Result<i64, String> {
        let to = self.brokers.lock().get(&broker).map(Arc::clone);
        let to = to.ok_or("its address is unknown")?;
        self.call(&to, chunk).map_err(|problem| problem.to_string())
    }
}
