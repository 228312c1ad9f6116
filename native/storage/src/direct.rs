//! Writes that bypass the page cache (O_DIRECT), for large writes that are not read soon.
//!
//! A page of the cache costs more than the bytes copied into it, several times as much if a virtual machine must first
//! get the memory from its host; and a bulk load evicts pages that consumers of other topics read. O_DIRECT needs whole
//! blocks of memory and file, so the edges of each write still use the cache; kernel and file system keep the two
//! consistent. Both kinds of write are on disk after the next sync of the file.

use pybroker_model::HEADER_BYTES;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Alignment of positions, lengths and memory: no common file system has blocks larger than a page.
const BLOCK_BYTES: usize = 4096;
/// Smaller writes use the page cache: for them, waiting for the disk costs more than the cache.
const WORTH_BYTES: usize = 128 << 10;
/// Size of each writing thread's aligned buffer. The buffer is needed because the input is not aligned to blocks.
const BUFFER_BYTES: usize = 1 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Cache-bypassing writes to the files of one log directory.
#[derive(Debug, Default)]
pub(crate) struct DirectWrites {
    /// Whether the file system refuses direct writes, so that all writes use the cache.
    refused: AtomicBool,
    /// Whether a direct write has succeeded. A later refusal then has another cause, such as a file size limit that
    /// cuts a block.
    known: AtomicBool,
}

impl DirectWrites {
    /// Write a batch at `position` of `file`, the file at `path`. The pages of the batch header go through the cache
    /// and mostly stay there, because attaching the batch later patches offsets in them.
    ///
    /// # Errors
    /// Any error of the operating system; some of the bytes may be written.
    pub(crate) fn write_batch_at(
        &self,
        file: &File,
        path: impl FnOnce() -> PathBuf,
        bytes: &[u8],
        position: u64,
    ) -> io::Result<()> {
        let past_header = position + HEADER_BYTES as u64;
        let head = (past_header.next_multiple_of(BLOCK_BYTES as u64) - position) as usize;
        let blocks = bytes.len().saturating_sub(head) / BLOCK_BYTES * BLOCK_BYTES;
        if blocks < WORTH_BYTES || self.refused.load(Ordering::Relaxed) {
            return file.write_all_at(bytes, position);
        }
        file.write_all_at(&bytes[..head], position)?;
        let start = position + head as u64;
        let written = match self.open(path()) {
            Some(direct) => self.write_blocks(&direct, &bytes[head..head + blocks], start)?,
            None => 0,
        };
        file.write_all_at(&bytes[head + written..], start + written as u64)
    }

    /// Write whole blocks through an aligned buffer. Return the number of written bytes. The caller writes the rest
    /// through the cache: a remainder if a write ended inside a block, or everything if the file system refuses.
    fn write_blocks(&self, direct: &File, blocks: &[u8], position: u64) -> io::Result<usize> {
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.is_empty() {
                buffer.resize(BUFFER_BYTES + BLOCK_BYTES, 0);
            }
            let border = buffer.as_ptr().align_offset(BLOCK_BYTES);
            let mut written = 0;
            for chunk in blocks.chunks(BUFFER_BYTES) {
                let aligned = &mut buffer[border..border + chunk.len()];
                aligned.copy_from_slice(chunk);
                let mut done = 0;
                while done < aligned.len() {
                    let at = position + (written + done) as u64;
                    match direct.write_at(&aligned[done..], at) {
                        Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Ok(count) => {
                            self.known.store(true, Ordering::Relaxed);
                            done += count;
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                            self.not_understood();
                            return Ok(written + done);
                        }
                        Err(error) => return Err(error),
                    }
                    if done % BLOCK_BYTES != 0 {
                        return Ok(written + done);
                    }
                }
                written += done;
            }
            Ok(written)
        })
    }

    /// Open the file for direct writes. Return `None` on any failure, for example if no descriptors are free; the
    /// caller then uses the file that is already open.
    #[cfg(target_os = "linux")]
    fn open(&self, path: PathBuf) -> Option<File> {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let opened = File::options().write(true).custom_flags(flags).open(path);
        if let Err(error) = &opened
            && error.kind() == io::ErrorKind::InvalidInput
        {
            self.not_understood();
        }
        opened.ok()
    }

    fn not_understood(&self) {
        if !self.known.load(Ordering::Relaxed) {
            self.refused.store(true, Ordering::Relaxed);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open(&self, _path: PathBuf) -> Option<File> {
        self.refused.store(true, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return bytes that differ between blocks and between neighboring positions.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len)
            .map(|at| (at / 7 % 251) as u8 ^ (at / BLOCK_BYTES) as u8)
            .collect()
    }

    #[test]
    fn batches_of_all_sizes_and_places_are_in_the_file_as_they_were_given() {
        for refused in [false, true] {
            let dir = tempfile::tempdir().expect("temp dir");
            let path = dir.path().join("file");
            let file = File::create_new(&path).expect("creates");
            let direct = DirectWrites {
                refused: refused.into(),
                ..DirectWrites::default()
            };
            let mut expected = Vec::new();
            let blocks = WORTH_BYTES;
            for len in [
                1,
                HEADER_BYTES,
                BLOCK_BYTES,
                blocks - 1,
                blocks,
                blocks + 2 * BLOCK_BYTES,
                2 * BUFFER_BYTES + 3,
                BUFFER_BYTES,
                3 * BLOCK_BYTES + 5,
                BUFFER_BYTES + 1,
            ] {
                let batch = bytes(len);
                direct
                    .write_batch_at(&file, || path.clone(), &batch, expected.len() as u64)
                    .expect("writes");
                expected.extend_from_slice(&batch);
                // Write at a block border, and one byte before it, where the header spans two pages.
                for fill in [0, BLOCK_BYTES - 1] {
                    let gap = (BLOCK_BYTES + fill - expected.len() % BLOCK_BYTES) % BLOCK_BYTES;
                    file.write_all_at(&bytes(gap), expected.len() as u64)
                        .expect("writes");
                    expected.extend_from_slice(&bytes(gap));
                    let batch = bytes(len);
                    direct
                        .write_batch_at(&file, || path.clone(), &batch, expected.len() as u64)
                        .expect("writes");
                    expected.extend_from_slice(&batch);
                }
            }
            assert!(std::fs::read(&path).expect("reads") == expected);
        }
    }

    #[test]
    fn what_cannot_be_opened_twice_goes_through_the_cache() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("file");
        let file = File::create_new(&path).expect("creates");
        let elsewhere = dir.path().join("no").join("file");
        let direct = DirectWrites::default();
        let batch = bytes(BUFFER_BYTES);
        direct
            .write_batch_at(&file, || elsewhere, &batch, 0)
            .expect("writes");
        assert!(std::fs::read(&path).expect("reads") == batch);
        if cfg!(target_os = "linux") {
            assert!(
                !direct.refused.load(Ordering::Relaxed),
                "for this time only"
            );
        }
    }
}
