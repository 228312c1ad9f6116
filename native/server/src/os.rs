//! Linux system calls, each with an alternative for other systems.

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{read_resident, send_file, send_more};
#[cfg(target_os = "linux")]
pub(crate) use linux::{read_resident, send_file, send_more};

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, IoSliceMut};
    use std::os::fd::AsFd;

    use rustix::io::ReadWriteFlags;
    use rustix::net::SendFlags;

    /// Send `bytes` with the hint that file bytes will follow. The kernel then puts both into the same segments.
    pub(crate) fn send_more(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(socket, bytes, flags)?)
    }

    /// Send a part of a file and advance `position`. Return 0 at the end of the file.
    pub(crate) fn send_file(
        socket: impl AsFd,
        file: impl AsFd,
        position: &mut u64,
        bytes: usize,
    ) -> io::Result<usize> {
        Ok(rustix::fs::sendfile(socket, file, Some(position), bytes)?)
    }

    /// Read bytes that are in the page cache. Return EAGAIN if they are not.
    pub(crate) fn read_resident(
        file: impl AsFd,
        out: &mut [u8],
        position: u64,
    ) -> rustix::io::Result<usize> {
        let flags = ReadWriteFlags::NOWAIT;
        rustix::io::preadv2(file, &mut [IoSliceMut::new(out)], position, flags)
    }
}

// The tests run this module on Linux, too.
#[cfg(any(test, not(target_os = "linux")))]
mod elsewhere {
    use std::io;
    use std::os::fd::AsFd;

    use rustix::io::Errno;
    use rustix::net::SendFlags;

    /// Size in bytes of one chunk that is copied from a file through memory.
    const COPIED_BYTES: usize = 64 * 1024;

    /// Send bytes.
    pub(crate) fn send_more(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(socket, bytes, SendFlags::empty())?)
    }

    /// Send a part of a file and advance `position`. Return 0 at the end of the file.
    pub(crate) fn send_file(
        socket: impl AsFd,
        file: impl AsFd,
        position: &mut u64,
        bytes: usize,
    ) -> io::Result<usize> {
        let mut copied = vec![0; bytes.min(COPIED_BYTES)];
        let read = rustix::io::pread(file, &mut copied[..], *position)?;
        if read == 0 {
            return Ok(0);
        }
        let sent = rustix::net::send(socket, &copied[..read], SendFlags::empty())?;
        *position += sent as u64;
        Ok(sent)
    }

    /// Read bytes; the system cannot report what is in the page cache.
    pub(crate) fn read_resident(
        _file: impl AsFd,
        _out: &mut [u8],
        _position: u64,
    ) -> rustix::io::Result<usize> {
        Err(Errno::OPNOTSUPP)
    }
}

/// Return the processor time of a thread of this process in nanoseconds; `None` if unknown.
#[cfg(target_os = "linux")]
pub(crate) fn processor_time(thread: i32) -> Option<u64> {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let text = std::fs::read_to_string(path).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Return the processor time of a thread of this process in nanoseconds; `None` if unknown.
#[cfg(not(target_os = "linux"))]
pub(crate) fn processor_time(_thread: i32) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_file_arrives_whole_without_sendfile() {
        let content: Vec<u8> = (0..150_000u32).map(|number| number as u8).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&content).expect("written");
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).expect("read");
            all
        });
        assert_eq!(elsewhere::send_more(&ours, b"head").expect("sent"), 4);
        let (mut position, end) = (10, 140_000);
        while position < end {
            let before = position;
            let left = (end - position) as usize;
            let sent = elsewhere::send_file(&ours, &file, &mut position, left).expect("sent");
            assert!(sent > 0 && position == before + sent as u64);
        }
        let mut behind = content.len() as u64;
        assert_eq!(
            elsewhere::send_file(&ours, &file, &mut behind, 10).expect("the end"),
            0
        );
        drop(ours);
        let all = reader.join().expect("ended");
        assert_eq!(all[..4], *b"head");
        assert!(all[4..] == content[10..140_000]);
        let mut byte = [0];
        assert!(elsewhere::read_resident(&file, &mut byte, 0).is_err());
        assert_eq!(read_resident(&file, &mut byte, 3), Ok(1));
        assert_eq!(byte, [3]);
    }
}
