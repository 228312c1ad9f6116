//! Delivery of committed records to the owner, in order: the records of the latest snapshot, then those of the log.

use std::collections::VecDeque;

use pybroker_metadata_log::{
    Directory, LogError, MetadataLog, SnapshotReader, decode_batches, record_values,
};
use pybroker_model::BatchHeader;
use pybroker_quorum::{Body, EpochEnd};

use crate::outbox::Outbox;
use crate::output::Output;

/// Number of bytes read from the log at a time.
const READ_BYTES: usize = 256 * 1024;

/// The owner's position in the log.
pub(crate) struct Delivery {
    /// The snapshot that is being delivered.
    snapshot: Option<SnapshotReader<Directory>>,
    /// All records below this offset are delivered.
    next: i64,
    committed: i64,
    /// Outputs to queue once everything below their offset is delivered.
    after: VecDeque<(i64, Output)>,
}

impl Delivery {
    /// Begin with the records of a snapshot.
    pub(crate) fn from_snapshot(snapshot: SnapshotReader<Directory>, outbox: &Outbox) -> Self {
        let mut delivery = Self {
            snapshot: None,
            next: 0,
            committed: 0,
            after: VecDeque::new(),
        };
        delivery.replace(snapshot, outbox);
        delivery
    }

    /// Deliver a snapshot that replaces all records delivered so far.
    pub(crate) fn replace(&mut self, snapshot: SnapshotReader<Directory>, outbox: &Outbox) {
        let id = snapshot.header().id;
        outbox.push(Output::SnapshotBegins {
            id,
            timestamp_ms: snapshot.timestamp_ms(),
        });
        self.next = id.offset;
        self.committed = self.committed.max(id.offset);
        self.snapshot = Some(snapshot);
    }

    /// Continue with a log that was opened again.
    pub(crate) fn reopen(
        &mut self,
        log: &MetadataLog<Directory>,
        outbox: &Outbox,
    ) -> Result<(), LogError> {
        let has_next = (log.start().offset..=log.end_offset()).contains(&self.next);
        if self.snapshot.is_some() || !has_next {
            let snapshot = log.open_snapshot(log.latest_snapshot())?;
            self.committed = self.committed.min(log.end_offset());
            self.replace(snapshot, outbox);
        }
        Ok(())
    }

    /// Return the end of the delivered records.
    pub(crate) fn delivered(&self) -> i64 {
        self.next
    }

    pub(crate) fn commit(&mut self, end: i64) {
        self.committed = self.committed.max(end);
    }

    /// Queue an output until everything below `offset` is delivered.
    pub(crate) fn tell_after(&mut self, offset: i64, output: Output) {
        let place = self.after.partition_point(|&(other, _)| other <= offset);
        self.after.insert(place, (offset, output));
    }

    /// Drop the output that announces this node as leader, if it is still queued.
    pub(crate) fn forget_leader(&mut self) {
        self.after
            .retain(|(_, output)| !matches!(output, Output::Leader { .. }));
    }

    /// Deliver committed records while the outbox has room.
    pub(crate) fn deliver(
        &mut self,
        log: &MetadataLog<Directory>,
        outbox: &Outbox,
    ) -> Result<(), LogError> {
        loop {
            if self.snapshot.is_none() {
                self.tell_due(outbox);
                if self.next >= self.committed {
                    return Ok(());
                }
            }
            if !outbox.has_room() {
                return Ok(());
            }
            match &mut self.snapshot {
                Some(snapshot) => match snapshot.next_records()? {
                    Some(records) => outbox.push(Output::SnapshotRecords(records)),
                    None => {
                        let id: EpochEnd = snapshot.header().id;
                        outbox.push(Output::SnapshotEnds(id));
                        self.snapshot = None;
                    }
                },
                None => self.deliver_batches(log, outbox)?,
            }
        }
    }

    fn deliver_batches(
        &mut self,
        log: &MetadataLog<Directory>,
        outbox: &Outbox,
    ) -> Result<(), LogError> {
        let bytes = log.read(self.next, self.committed, READ_BYTES)?;
        let batches = decode_batches(&bytes)?;
        if batches.is_empty() {
            return Err(LogError::Batch(format!(
                "no batch at offset {}, which is committed",
                self.next
            )));
        }
        for batch in batches {
            let encoded = batch.encoded.clone().unwrap_or_default();
            let timestamp_ms =
                BatchHeader::parse(&encoded).map_or(-1, |header| header.max_timestamp);
            let records = match &batch.body {
                Body::Data(data) => record_values(data)?,
                _ => Vec::new(),
            };
            self.next = batch.end_offset();
            outbox.push(Output::Committed {
                base_offset: batch.base_offset,
                end_offset: batch.end_offset(),
                epoch: batch.epoch,
                timestamp_ms,
                records,
            });
            self.tell_due(outbox);
        }
        Ok(())
    }

    fn tell_due(&mut self, outbox: &Outbox) {
        while self
            .after
            .front()
            .is_some_and(|&(offset, _)| offset <= self.next)
        {
            if let Some((_, output)) = self.after.pop_front() {
                outbox.push(output);
            }
        }
    }
}
