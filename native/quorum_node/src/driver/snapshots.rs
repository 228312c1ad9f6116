//! Snapshots: fetching one from the leader, sending one to a lagging replica, and writing one.

use bytes::Bytes;
use pybroker_metadata_log::{Directory, LogError, SnapshotWriter};
use pybroker_quorum::{Answer, EpochEnd, Error, Event, Response, Snapshot};

use super::{Driver, RESPONSE_BYTES_MAX};
use crate::wire::{Payload, SnapshotPart};

impl Driver {
    /// Return the position in the snapshot `id` up to which this node has downloaded it. If `id` differs from the
    /// current download, start a new download.
    pub(super) fn download_position(&mut self, id: EpochEnd) -> Result<i64, LogError> {
        let download = match self.download.take().filter(|download| download.id() == id) {
            Some(download) => download,
            None => self.log.begin_download(id)?,
        };
        let position = download.position().cast_signed();
        self.download = Some(download);
        Ok(position)
    }

    /// Store a part of the snapshot that is being downloaded. Return `Empty` if it is not the expected part.
    pub(super) fn on_snapshot_part(
        &mut self,
        part: SnapshotPart,
    ) -> Result<Answer<Bytes>, LogError> {
        let Some(mut download) = self.download.take() else {
            return Ok(Answer::Empty);
        };
        let position = u64::try_from(part.position).unwrap_or(u64::MAX);
        if download.id() != part.id || download.position() != position {
            self.download = Some(download);
            return Ok(Answer::Empty);
        }
        download.write(&part.bytes)?;
        if download.position() < u64::try_from(part.size).unwrap_or(0) {
            self.download = Some(download);
            return Ok(match part.bytes.is_empty() {
                true => Answer::Empty,
                false => Answer::SnapshotPart,
            });
        }
        match download.complete() {
            Ok(header) => Ok(Answer::Snapshot(Snapshot {
                header,
                content: Bytes::new(),
            })),
            Err(error) if error.is_damage() => {
                self.warn(format!("the leader's snapshot: {error}"));
                Ok(Answer::Empty)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn on_snapshot_written(&mut self, id: EpochEnd) -> Result<(), LogError> {
        let header = self.quorum.snapshot_header(id.offset);
        let start = self.log.snapshot_written(id, self.clock.wall_ms())?;
        if let (Some(start), Some(header)) = (start, header) {
            self.step([Event::SnapshotWritten { header, start }]);
        }
        Ok(())
    }

    pub(super) fn respond_with_snapshot(
        &mut self,
        handle: u64,
        mut response: Response<Bytes>,
        id: EpochEnd,
    ) {
        let Some(reply) = self.replies.get(&handle).copied() else {
            return;
        };
        let bytes_max = reply.bytes_max.min(RESPONSE_BYTES_MAX);
        let position = u64::try_from(reply.position).unwrap_or(u64::MAX);
        let read = self.log.open_snapshot(id).and_then(|snapshot| {
            let size = snapshot.size().cast_signed();
            let bytes = snapshot.part(position, bytes_max)?;
            Ok(Payload { bytes, size })
        });
        let payload = read.unwrap_or_else(|error| {
            response.error = Error::SnapshotNotFound;
            self.warn(format!("snapshot for node that lags: {error}"));
            Payload::default()
        });
        self.respond(handle, &response, &payload);
    }

    /// Begin a snapshot of the records delivered up to `end`, the end of a committed batch. `None` if `end` is not
    /// committed, or not beyond the latest snapshot.
    pub(crate) fn begin_snapshot(
        &self,
        end: i64,
        timestamp_ms: i64,
    ) -> Result<Option<SnapshotWriter<Directory>>, LogError> {
        let Some(header) = self.quorum.snapshot_header(end) else {
            return Ok(None);
        };
        let voters = self.addresses.of_voters(&header.voters);
        let writer = self.log.begin_snapshot(&header, &voters, timestamp_ms)?;
        Ok(Some(writer))
    }
}
