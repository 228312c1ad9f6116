//! Leader side of copying staged records: the leader answers an append once every in-sync replica has staged it.
//!
//! The leader sends the records that a replica lacks. A replica stages them like client appends and skips records that
//! it already has, so duplicates are harmless. All brokers stage the same sequence of batches for an attempt; a replica
//! that was down, or led before, lacks only records at the end.

use std::sync::Arc;

use pybroker_model::{Batches, TopicIdPartition, set_base_offset};
use pybroker_storage::Log;

use crate::open_ingests::{Attempt, Ingest, StagedChunk};
use crate::{IngestError, Partition, PartitionError, Replicas};

/// Largest piece in one request, except for a single larger batch.
const CHUNK_BYTES: usize = 4 << 20;
/// How many times the leader checks for replicas that join the ISR during the copy.
const ROUNDS: usize = 8;

impl Replicas {
    /// Copy the `rows` staged records of an attempt to the in-sync replicas. Holds no lock during the copy.
    pub(super) fn bring_to_followers(
        &self,
        ingest: &Ingest,
        partition: &Partition,
        attempt: &Arc<Attempt>,
        rows: i64,
    ) -> Result<(), IngestError> {
        for _ in 0..ROUNDS {
            let followers = partition.in_sync_followers()?;
            let lacking: Vec<i32> = {
                let copied = attempt.copied.lock();
                let has = |broker| copied.get(&broker).is_some_and(|&copied| copied >= rows);
                followers
                    .into_iter()
                    .filter(|&broker| !has(broker))
                    .collect()
            };
            if lacking.is_empty() {
                return Ok(());
            }
            for broker in lacking {
                self.bring(ingest, partition, attempt, rows, broker)?;
            }
        }
        Ok(())
    }

    /// Copy all staged records of a partition to replicas that are about to join the ISR. Blocks on the disk and on
    /// those brokers.
    ///
    /// # Errors
    /// The first [`IngestError`].
    pub fn bring_staged(
        &self,
        tip: TopicIdPartition,
        brokers: &[i32],
        now_ms: i64,
    ) -> Result<(), IngestError> {
        let partition = self.partition(tip).ok_or(PartitionError::NotLeader)?;
        let open: Vec<_> = self.ingests.open.read().values().cloned().collect();
        for ingest in open {
            if ingest.new.name.topic_id != tip.topic_id {
                continue;
            }
            let attempts: Vec<_> = {
                let attempts = ingest.attempts.lock();
                let of_partition = attempts.iter().filter(|(key, _)| key.0 == tip.partition);
                of_partition
                    .map(|(_, attempt)| Arc::clone(attempt))
                    .collect()
            };
            for attempt in attempts {
                let rows = {
                    let mut staged = attempt.staged.lock();
                    let config = &ingest.new.config;
                    let opened = attempt.opened(&mut staged, config, &self.ingests, now_ms)?;
                    opened.totals.rows
                };
                for &broker in brokers.iter().filter(|&&one| one != partition.broker_id()) {
                    attempt.copied.lock().remove(&broker);
                    self.bring(&ingest, &partition, &attempt, rows, broker)?;
                }
            }
        }
        Ok(())
    }

    /// Copy the staged records of an attempt to one broker.
    pub(super) fn bring(
        &self,
        ingest: &Ingest,
        partition: &Partition,
        attempt: &Arc<Attempt>,
        rows: i64,
        broker: i32,
    ) -> Result<(), IngestError> {
        let not_copied = |reason: String| IngestError::NotCopied { broker, reason };
        let copies = self.ingests.copies.get();
        let copies =
            copies.ok_or_else(|| not_copied("there is no connection to other brokers".into()))?;
        let send = |sequence, records: &[u8]| {
            let chunk = StagedChunk {
                name: &ingest.new.name,
                epoch: ingest.new.epoch,
                partition: partition.tip().partition,
                writer: attempt.writer,
                attempt: attempt.attempt,
                sequence,
                records,
            };
            copies.send(broker, &chunk).map_err(not_copied)
        };
        let log = attempt
            .staged
            .lock()
            .as_ref()
            .map(|staged| Arc::clone(&staged.log));
        let log = log.ok_or(IngestError::Unknown)?;
        let known = attempt.copied.lock().get(&broker).copied();
        let mut there = match known {
            Some(there) => there,
            None => send(rows, &[])?,
        };
        while there < rows {
            let (first, records) = chunk_from(&log, there)?;
            let now = send(first, &records)?;
            if now <= there {
                // The broker lost records. The next attempt starts from the number of records that it reports.
                attempt.copied.lock().remove(&broker);
                return Err(not_copied(format!("it has {now} records but had {there}")));
            }
            there = now;
        }
        if there > rows {
            // The replica has more records, from an append that an earlier leader received. The client repeats that
            // append, or the attempt is not committed.
            there = rows;
        }
        attempt.copied.lock().insert(broker, there);
        Ok(())
    }
}

/// Return whole batches from the batch with record `from` on, as the client sent them, and the number of their first
/// record.
fn chunk_from(log: &Log, from: i64) -> Result<(i64, Vec<u8>), IngestError> {
    let read = log
        .read(from, CHUNK_BYTES, log.log_end_offset(), true)
        .map_err(PartitionError::from)?;
    let mut records = read.to_vec().map_err(PartitionError::storage)?;
    let (mut starts, mut whole, mut first) = (Vec::new(), 0, from);
    for batch in Batches::new(&records) {
        let Ok((header, bytes)) = batch else { break };
        if whole == 0 {
            first = header.base_offset;
        }
        starts.push(whole);
        whole += bytes.len();
    }
    records.truncate(whole);
    for start in starts {
        set_base_offset(&mut records[start..], 0);
    }
    Ok((first, records))
}
