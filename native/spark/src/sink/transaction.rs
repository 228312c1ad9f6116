//! The transaction of a sink. The sink adds partitions; the driver begins and ends the transaction.
//!
//! It uses version 1 of the transaction protocol, which every broker since Apache Kafka 2.5 supports: the client adds a
//! partition before it writes to it, and EndTxn does not change the epoch, so that the driver can repeat it.

use std::ops::RangeInclusive;

use pybroker_client::{Client, Error, Node, Result};
use pybroker_model::Uuid;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_protocol::{ApiKey, ErrorCode};

use super::Target;

/// Supported versions of FindCoordinator. Version 3 is the first flexible one, and the last with a single key.
const FIND_COORDINATOR: RangeInclusive<i16> = 1..=3;
const FIND_COORDINATOR_FLEXIBLE: i16 = 3;
const OF_TRANSACTIONS: i8 = 1;
/// Supported versions of AddPartitionsToTxn. Version 3 is the first flexible one, and the last that producers may use.
const ADD_PARTITIONS: RangeInclusive<i16> = 0..=3;
const ADD_PARTITIONS_FLEXIBLE: i16 = 3;
/// Tag of the topic's id for pybroker (docs/protocol.md); other brokers ignore it.
const TOPIC_ID_TAG: u32 = 10_000;

/// A producer with a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The transactional id.
    pub id: String,
    /// Producer id from InitProducerId.
    pub producer_id: i64,
    /// Producer epoch; a fenced producer has an older one.
    pub producer_epoch: i16,
}

/// Add the partition to the transaction, so that EndTxn also writes its marker there. May be repeated.
pub(super) fn add_partition(
    client: &mut Client,
    transaction: &Transaction,
    target: &Target,
    partition: i32,
) -> Result<()> {
    client.patiently(|client| try_add_partition(client, transaction, target, partition))
}

fn try_add_partition(
    client: &mut Client,
    transaction: &Transaction,
    target: &Target,
    partition: i32,
) -> Result<()> {
    let node = Node::Broker(coordinator(client, &transaction.id)?);
    let connection = client.connection(node)?;
    let version = connection.version_of(ApiKey::AddPartitionsToTxn, ADD_PARTITIONS)?;
    let broker = connection.address().to_owned();
    let flexible = version >= ADD_PARTITIONS_FLEXIBLE;
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body, flexible);
    writer.string(&transaction.id);
    writer.i64(transaction.producer_id);
    writer.i16(transaction.producer_epoch);
    writer.array_len(1);
    writer.string(&target.name);
    writer.array_len(1);
    writer.i32(partition);
    if flexible && target.id != Uuid::ZERO {
        writer.tag_count(1);
        writer.tag(TOPIC_ID_TAG, |writer| writer.uuid(target.id));
    } else {
        writer.no_tags();
    }
    writer.no_tags();
    let answer = client.call(node, ApiKey::AddPartitionsToTxn as i16, version, &body)?;
    let read = || -> core::result::Result<i16, DecodeError> {
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        if reader.array_len(flexible, 6)? == 0 {
            return Err(DecodeError::UnexpectedNull);
        }
        reader.string(flexible)?;
        if reader.array_len(flexible, 6)? == 0 {
            return Err(DecodeError::UnexpectedNull);
        }
        reader.i32()?;
        reader.i16()
    };
    match read().map_err(|error| Error::decode(&broker, error))? {
        0 => Ok(()),
        code => Err(Error::refused(
            ErrorCode(code),
            format!(
                "{}-{partition} in transaction {}",
                target.name, transaction.id
            ),
            None,
        )),
    }
}

/// Return the coordinator of a transactional id.
fn coordinator(client: &mut Client, id: &str) -> Result<i32> {
    let connection = client.connection(Node::Any)?;
    let version = connection.version_of(ApiKey::FindCoordinator, FIND_COORDINATOR)?;
    let broker = connection.address().to_owned();
    let flexible = version >= FIND_COORDINATOR_FLEXIBLE;
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body, flexible);
    writer.string(id);
    writer.i8(OF_TRANSACTIONS);
    writer.no_tags();
    let answer = client.call(Node::Any, ApiKey::FindCoordinator as i16, version, &body)?;
    let read = || -> core::result::Result<(i16, i32), DecodeError> {
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let code = reader.i16()?;
        reader.nullable_string(flexible)?;
        Ok((code, reader.i32()?))
    };
    match read().map_err(|error| Error::decode(&broker, error))? {
        (0, node) => Ok(node),
        (code, _) => Err(Error::refused(
            ErrorCode(code),
            format!("coordinator of transactional id {id}"),
            None,
        )),
    }
}
