//! The write side of a connection: reply bytes and slices of log files, in order.
//!
//! Bytes of finished replies are held until the peer takes them; records stay in their file and go from the page cache
//! to the socket. The connection stops reading while too much is pending, so that a slow reader holds a bounded number
//! of bytes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;

use crate::net::buffers::BufferPool;
use crate::os;

/// A file that stays open while a reply refers to it, even if it is renamed or deleted.
pub(crate) type SliceFile = dyn AsFd + Send + Sync;

/// A part of a file.
#[derive(Clone)]
pub(crate) struct FileSlice {
    pub(crate) file: Arc<SliceFile>,
    pub(crate) position: u64,
    pub(crate) bytes: usize,
}

/// Bytes with file slices between them.
struct Chunk {
    bytes: Vec<u8>,
    /// Number of bytes already sent.
    sent: usize,
    /// Unsent slices, each with the number of bytes before it.
    slices: VecDeque<(usize, FileSlice)>,
}

/// Pending output of a connection.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// Output before `tail`.
    queue: VecDeque<Chunk>,
    /// Buffer to which replies are appended. It has no capacity while no output is pending.
    tail: Vec<u8>,
    /// Bytes of `tail` already sent.
    tail_sent: usize,
    /// Bytes held in `queue`, without file slices, which hold no memory.
    queued_bytes: usize,
}

impl Outgoing {
    /// Return the buffer to append reply bytes to.
    #[inline]
    pub(crate) fn tail(&mut self, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.tail.capacity() == 0 {
            self.tail = pool.take();
        }
        &mut self.tail
    }

    /// Append bytes with file slices between them: each slice follows the given number of bytes, ascending.
    pub(crate) fn push(&mut self, bytes: Vec<u8>, slices: VecDeque<(usize, FileSlice)>) {
        if self.tail.len() > self.tail_sent {
            let tail = core::mem::take(&mut self.tail);
            self.queued_bytes += tail.len();
            let sent = core::mem::take(&mut self.tail_sent);
            self.queue.push_back(Chunk {
                bytes: tail,
                sent,
                slices: VecDeque::new(),
            });
        }
        self.queued_bytes += bytes.len();
        self.queue.push_back(Chunk {
            bytes,
            sent: 0,
            slices,
        });
    }

    /// Return how many bytes in memory are not sent yet. Ranges of files do not count.
    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.queued_bytes + self.tail.len() - self.tail_sent
    }

    /// Return whether no output waits for the peer.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.tail.len() == self.tail_sent
    }

    /// Pass at most `bytes_max` of the next output to `sink`: reply bytes directly, file records through a buffer.
    pub(crate) fn take_plain(
        &mut self,
        pool: &mut BufferPool,
        bytes_max: usize,
        sink: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(chunk) = self.queue.front_mut() {
            let next_slice = chunk.slices.front_mut();
            let until = next_slice.as_ref().map_or(chunk.bytes.len(), |(at, _)| *at);
            if chunk.sent < until {
                let end = until.min(chunk.sent + bytes_max);
                sink(&chunk.bytes[chunk.sent..end])?;
                chunk.sent = end;
            } else if let Some((_, slice)) = next_slice {
                let mut copied = pool.take();
                let read = read_piece(slice, bytes_max, &mut copied).and_then(|()| sink(&copied));
                slice.position += copied.len() as u64;
                slice.bytes -= copied.len();
                pool.give(copied);
                read?;
                if slice.bytes == 0 {
                    chunk.slices.pop_front();
                }
            }
            if chunk.sent == chunk.bytes.len() && chunk.slices.is_empty() {
                self.queued_bytes -= chunk.bytes.len();
                if let Some(chunk) = self.queue.pop_front() {
                    pool.give(chunk.bytes);
                }
            }
            return Ok(());
        }
        let end = self.tail.len().min(self.tail_sent + bytes_max);
        sink(&self.tail[self.tail_sent..end])?;
        self.tail_sent = end;
        if self.tail_sent == self.tail.len() {
            pool.give(core::mem::take(&mut self.tail));
            self.tail_sent = 0;
        }
        Ok(())
    }

    /// Write until all output is sent (`Ready(Ok(true))`), the turn's share `bytes_max` is used up (`Ready(Ok(false))`)
    /// or the socket is full (`Pending`). Adds the bytes sent to `sent`.
    pub(crate) fn poll_flush(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut TcpStream,
        pool: &mut BufferPool,
        bytes_max: usize,
        sent: &mut usize,
    ) -> Poll<io::Result<bool>> {
        while let Some(chunk) = self.queue.front_mut() {
            if *sent >= bytes_max {
                return Poll::Ready(Ok(false));
            }
            let next_slice = chunk.slices.front_mut();
            let until = next_slice.as_ref().map_or(chunk.bytes.len(), |(at, _)| *at);
            if chunk.sent < until {
                let here = &chunk.bytes[chunk.sent..until];
                let count = match next_slice {
                    Some(_) => ready!(poll_send_more(context, socket, here))?,
                    None => ready!(poll_send(context, socket, here))?,
                };
                *sent += count;
                chunk.sent += count;
            } else if let Some((_, slice)) = next_slice {
                let share = slice.bytes.min(bytes_max - *sent);
                let count = ready!(poll_sendfile(
                    context,
                    socket,
                    slice.file.as_fd(),
                    &mut slice.position,
                    share
                ))?;
                *sent += count;
                slice.bytes -= count;
                if slice.bytes == 0 {
                    chunk.slices.pop_front();
                }
            } else {
                self.queued_bytes -= chunk.bytes.len();
                if let Some(chunk) = self.queue.pop_front() {
                    pool.give(chunk.bytes);
                }
            }
        }
        while self.tail_sent < self.tail.len() {
            let count = ready!(poll_send(context, socket, &self.tail[self.tail_sent..]))?;
            *sent += count;
            self.tail_sent += count;
        }
        if self.tail.capacity() > 0 {
            pool.give(core::mem::take(&mut self.tail));
            self.tail_sent = 0;
        }
        Poll::Ready(Ok(true))
    }
}

pub(crate) fn poll_send(
    context: &mut Context<'_>,
    socket: &mut TcpStream,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    match ready!(Pin::new(socket).poll_write(context, bytes))? {
        0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        count => Poll::Ready(Ok(count)),
    }
}

/// Append the next bytes of a slice, as many as the buffer has room for.
fn read_piece(slice: &FileSlice, bytes_max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let wanted = slice.bytes.min(bytes_max).min(out.capacity());
    out.resize(wanted, 0);
    let read = loop {
        match rustix::io::pread(slice.file.as_fd(), &mut out[..], slice.position) {
            Err(rustix::io::Errno::INTR) => {}
            read => break read,
        }
    };
    out.truncate(*read.as_ref().unwrap_or(&0));
    match read {
        // The reply announced these bytes, so a truncated file is an error.
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Send `bytes` with the hint that file bytes will follow.
fn poll_send_more(
    context: &mut Context<'_>,
    socket: &TcpStream,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_write_ready(context))?;
        match socket.try_io(Interest::WRITABLE, || os::send_more(socket, bytes)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return Poll::Ready(other),
        }
    }
}

/// Send a part of a file and advance `position`.
fn poll_sendfile(
    context: &mut Context<'_>,
    socket: &TcpStream,
    file: BorrowedFd<'_>,
    position: &mut u64,
    bytes: usize,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_write_ready(context))?;
        let send = || os::send_file(socket, file, position, bytes);
        match socket.try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The reply announced these bytes, so a truncated file is an error.
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            other => return Poll::Ready(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The TLS cipher reads reply bytes in place and file records from the one buffer that they were read into, piece
    /// by piece.
    #[test]
    fn the_cipher_gets_replies_from_where_they_are_and_records_by_one_copy() {
        const RECORDS: usize = 1_000_000;
        const PIECE: usize = 48 * 1024;
        let records: Vec<u8> = (0..RECORDS).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&records).expect("written");
        let reply = vec![3; 100_000];
        let (begin, place) = (reply[..70].to_vec(), reply.as_ptr_range());
        let slice = FileSlice {
            file: Arc::new(file),
            position: 0,
            bytes: RECORDS,
        };
        let mut pool = BufferPool::default();
        let mut outgoing = Outgoing::default();
        outgoing.push(reply, VecDeque::from([(70, slice)]));
        let (mut got, mut copied_to) = (Vec::new(), Vec::new());
        while !outgoing.is_empty() {
            let sink = |plain: &[u8]| {
                assert!((1..=PIECE).contains(&plain.len()));
                if !place.contains(&plain.as_ptr()) {
                    copied_to.push((plain.as_ptr(), plain.len()));
                }
                got.extend_from_slice(plain);
                Ok(())
            };
            outgoing.take_plain(&mut pool, PIECE, sink).expect("taken");
        }
        assert_eq!(got[..70], begin);
        assert!(got[70..70 + RECORDS] == records[..], "the records");
        assert_eq!(got.len(), 100_000 + RECORDS);
        let bytes: usize = copied_to.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(bytes, RECORDS, "each byte of the file once, and no other");
        assert!(copied_to.iter().all(|(at, _)| *at == copied_to[0].0));
    }
}
