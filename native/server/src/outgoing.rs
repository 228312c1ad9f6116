//! The write side of a connection: reply bytes and slices of log files, in order.
//!
//! Bytes of finished replies are held until the peer takes them; records stay in their file and go from the page
//! cache to the socket. The connection stops reading while too much is pending, so a slow reader holds a bounded
//! number of bytes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::SendFlags;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;

use crate::buffers::BufferPool;

/// A file that stays open for as long as a reply refers to it, whatever happens to its name.
pub(crate) type SliceFile = dyn AsFd + Send + Sync;

/// A piece of the output.
enum Chunk {
    /// Bytes, and how many of them were sent.
    Bytes(Vec<u8>, usize),
    /// A part of a file.
    File {
        file: Arc<SliceFile>,
        position: u64,
        left: usize,
    },
}

/// See the module.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// What comes before `tail`.
    queue: VecDeque<Chunk>,
    /// Bytes being appended to. Without capacity while nothing is pending.
    tail: Vec<u8>,
    /// Bytes of `tail` that were sent.
    tail_sent: usize,
    /// Bytes held in `queue` (file parts do not count: they hold no memory).
    queued_bytes: usize,
}

impl Outgoing {
    /// The buffer to append reply bytes to.
    #[inline]
    pub(crate) fn tail(&mut self, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.tail.capacity() == 0 {
            self.tail = pool.take();
        }
        &mut self.tail
    }

    /// Appends a part of a file.
    pub(crate) fn push_file(
        &mut self,
        pool: &mut BufferPool,
        file: Arc<SliceFile>,
        position: u64,
        bytes: usize,
    ) {
        if !self.tail.is_empty() {
            let tail = core::mem::replace(&mut self.tail, pool.take());
            self.queued_bytes += tail.len();
            self.queue
                .push_back(Chunk::Bytes(tail, core::mem::take(&mut self.tail_sent)));
        }
        self.queue.push_back(Chunk::File {
            file,
            position,
            left: bytes,
        });
    }

    /// Bytes of memory that wait for the peer.
    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.queued_bytes + self.tail.len() - self.tail_sent
    }

    /// True if nothing waits for the peer.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.tail.len() == self.tail_sent
    }

    /// Writes until everything is sent (`Ready(Ok(true))`), the turn's share `bytes_max` is used up
    /// (`Ready(Ok(false))`) or the socket is full (`Pending`). Adds what was sent to `sent`.
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
            match chunk {
                Chunk::Bytes(bytes, done) => {
                    let count = ready!(poll_send_more(context, socket, &bytes[*done..]))?;
                    *sent += count;
                    *done += count;
                    if *done == bytes.len() {
                        self.queued_bytes -= bytes.len();
                        if let Some(Chunk::Bytes(bytes, _)) = self.queue.pop_front() {
                            pool.give(bytes);
                        }
                    }
                }
                Chunk::File {
                    file,
                    position,
                    left,
                } => {
                    let share = (*left).min(bytes_max - *sent);
                    let count = ready!(poll_sendfile(
                        context,
                        socket,
                        file.as_fd(),
                        position,
                        share
                    ))?;
                    *sent += count;
                    *left -= count;
                    if *left == 0 {
                        self.queue.pop_front();
                    }
                }
            }
        }
        while self.tail_sent < self.tail.len() {
            let count =
                ready!(Pin::new(&mut *socket).poll_write(context, &self.tail[self.tail_sent..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
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

/// Sends bytes that file bytes follow: the kernel puts both into the same segments.
fn poll_send_more(
    context: &mut Context<'_>,
    socket: &TcpStream,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_write_ready(context))?;
        let send = || {
            rustix::net::send(socket, bytes, SendFlags::MORE | SendFlags::NOSIGNAL)
                .map_err(io::Error::from)
        };
        match socket.try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return Poll::Ready(other),
        }
    }
}

/// Sends a part of a file and moves `position` past it.
fn poll_sendfile(
    context: &mut Context<'_>,
    socket: &TcpStream,
    file: BorrowedFd<'_>,
    position: &mut u64,
    bytes: usize,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_write_ready(context))?;
        let send =
            || rustix::fs::sendfile(socket, file, Some(position), bytes).map_err(io::Error::from);
        match socket.try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The reply announced these bytes; a file that got shorter cannot be made up for.
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            other => return Poll::Ready(other),
        }
    }
}
