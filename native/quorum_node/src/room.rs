//! A full disk. The node gives up its role, and opens the log again when there is room: as after a crash of the
//! process, recovery removes an incomplete write.

use std::io;

use pybroker_metadata_log::{Directory, FileHandle, Files};

/// Interval at which a node on a full disk looks for room.
pub(crate) const RETRY_MS: u64 = 1000;
/// Room that a node needs to go on: one fetch from the leader.
const ROOM_BYTES: usize = 1 << 20;
/// Recovery removes files with this suffix.
const PROBE: &str = "room.tmp";

/// A node that waits for room.
#[derive(Debug, Default)]
pub(crate) struct WaitForRoom {
    /// The disk thread has finished the jobs of the time before.
    pub(crate) drained: bool,
    /// Time of the next attempt.
    pub(crate) retry_at: u64,
}

/// Return whether the disk takes another [`ROOM_BYTES`].
pub(crate) fn has_room(files: &Directory) -> bool {
    let write = || -> io::Result<()> {
        let file = files.create(PROBE)?;
        FileHandle::write_at(&file, &vec![0; ROOM_BYTES], 0)
    };
    let written = write().is_ok();
    written & files.remove(PROBE).is_ok()
}
