//! The file descriptor that wakes Python's event loop: an eventfd on Linux, a socket pair elsewhere.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

/// A descriptor that is readable between `signal` and `consume`.
#[derive(Debug)]
pub(crate) struct WakeFd {
    reader: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    writer: OwnedFd,
}

impl WakeFd {
    #[cfg(target_os = "linux")]
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let reader = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { reader })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = std::os::unix::net::UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self {
            reader: reader.into(),
            writer: writer.into(),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Make the descriptor readable. The caller does so at most once between two calls of `consume`, so that neither an
    /// eventfd nor a socket pair fills up.
    pub(crate) fn signal(&self) {
        #[cfg(target_os = "linux")]
        let (fd, one) = (&self.reader, 1u64.to_ne_bytes());
        #[cfg(not(target_os = "linux"))]
        let (fd, one) = (&self.writer, [1u8]);
        retry(|| rustix::io::write(fd, &one).map(|_| ()));
    }

    /// Make the descriptor unreadable.
    pub(crate) fn consume(&self) {
        let mut value = [0u8; 8];
        retry(|| rustix::io::read(&self.reader, &mut value).map(|_| ()));
    }
}

/// Repeat the call after EINTR. EAGAIN means that the descriptor is already in the wanted state. No other error can
/// occur for a descriptor that this process owns.
fn retry(mut call: impl FnMut() -> rustix::io::Result<()>) {
    while call() == Err(Errno::INTR) {}
}
