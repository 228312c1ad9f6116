//! Appending as a follower: what the leader has, with the offsets and epochs that it assigned.

use super::Log;
use crate::error::AppendError;
use pybroker_model::Batches;

impl Log {
    /// Appends what a follower fetched: offsets and epochs stay as the leader assigned them. A
    /// partial batch at the end is left out; batches wholly below the log end are, too. Answers
    /// the new log end.
    ///
    /// # Errors
    /// [`AppendError`]; batches before the faulty one may have been appended.
    pub fn append_as_follower(&self, records: &[u8], now_ms: i64) -> Result<i64, AppendError> {
        // Checksums first, outside the lock.
        let mut headers = Vec::new();
        let mut walk = Batches::new(records);
        let mut position = 0;
        for batch in &mut walk {
            let (header, bytes) = batch?;
            header.check()?;
            header.check_crc(bytes)?;
            headers.push((position, header));
            position += bytes.len();
        }
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        for (position, header) in headers {
            let end = self.log_end_offset();
            if header.last_offset() < end {
                continue;
            }
            // Compacted logs have gaps, so a batch may begin above the end.
            if header.base_offset < end {
                return Err(AppendError::UnexpectedOffset {
                    got: header.base_offset,
                    end,
                });
            }
            self.note_epoch(header.partition_leader_epoch, header.base_offset)?;
            let bytes = &records[position..position + header.size_in_bytes()];
            self.write(
                &mut writer,
                bytes,
                Some(&header),
                header.last_offset(),
                now_ms,
            )?;
        }
        Ok(self.log_end_offset())
    }
}
