//! The least work of a durable Produce of small records: all waiting requests share one journal write, which is on
//! disk before their responses are sent.
//!
//! Two threads receive, compute checksums and collect the frames; one thread writes them to a preallocated file and
//! responds. There is no protocol, no log and no index; a client only sends a new frame after each response.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;

use crate::{Outcome, pairs, thread_cpu};

const RECEIVERS: usize = 2;
const ANSWER_BYTES: usize = 32;
/// Alignment of addresses, offsets and lengths for O_DIRECT.
const BLOCK_BYTES: usize = 4096;
const JOURNAL_BYTES: u64 = 64 << 20;

/// Frames that wait for the disk, and how many of each connection.
struct Waiting {
    bytes: Vec<u8>,
    answers: Vec<usize>,
}

struct Journal {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    ended: AtomicBool,
}

/// Requests a second, CPU µs a request of the serving threads, and writes a request, as one line of JSON.
pub(crate) fn measure(
    connections: usize,
    in_flight: usize,
    bytes: usize,
    seconds: u64,
    dir: &Path,
) -> Outcome<String> {
    // The largest possible batch, in whole blocks.
    let room = (connections * in_flight * bytes).next_multiple_of(BLOCK_BYTES);
    if room as u64 > JOURNAL_BYTES {
        return Err(format!(
            "{room} bytes in flight are more than the {JOURNAL_BYTES} of the file"
        )
        .into());
    }
    let path = dir.join("limit-journal.log");
    std::fs::write(&path, vec![0; JOURNAL_BYTES as usize])?;
    let file = open(&path)?;
    file.sync_all()?;
    let (servers, clients): (Vec<_>, Vec<_>) = pairs(connections)?.into_iter().unzip();
    let journal = Journal {
        waiting: Mutex::new(Waiting {
            bytes: Vec::new(),
            answers: vec![0; connections],
        }),
        arrived: Condvar::new(),
        ended: AtomicBool::new(false),
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let started = Instant::now();
    let (requests, used, writes) = thread::scope(|scope| -> Outcome<_> {
        let receivers: Vec<_> = (0..RECEIVERS.min(connections))
            .map(|number| {
                let (journal, servers) = (&journal, &servers);
                scope.spawn(move || receive(journal, servers, number, bytes))
            })
            .collect();
        let writer = scope.spawn(|| write(&journal, &servers, &file, room));
        let drivers: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || drive(client, in_flight, bytes, end)))
            .collect();
        let mut requests = 0;
        for driver in drivers {
            requests += driver.join().map_err(|_| "a client thread died")??;
        }
        let mut used = 0.0;
        for receiver in receivers {
            used += receiver.join().map_err(|_| "a receiving thread died")??;
        }
        journal.ended.store(true, Ordering::Release);
        journal.arrived.notify_all();
        let (cpu, writes) = writer.join().map_err(|_| "the writing thread died")??;
        Ok((requests, used + cpu, writes))
    })?;
    let took = started.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(format!(
        "{{\"operation\":\"journal\",\"connections\":{connections},\"requests_per_s\":{:.0},\"broker_cpu_us_per_request\":{:.2},\"writes_per_request\":{:.4}}}",
        requests as f64 / took,
        used * 1e6 / requests as f64,
        writes as f64 / requests as f64
    ))
}

/// Opens a file whose writes are durable, and bypass the page cache where the system supports it.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT | OFlags::DSYNC;
    let flags = flags.bits() as i32;
    File::options().write(true).custom_flags(flags).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DSYNC.bits() as i32;
    File::options().write(true).custom_flags(flags).open(path)
}

/// Receives from every `RECEIVERS`th connection until all of them are closed. Returns the CPU seconds of the thread.
fn receive(journal: &Journal, servers: &[TcpStream], number: usize, bytes: usize) -> Outcome<f64> {
    let started = thread_cpu();
    let mut own: Vec<(usize, Vec<u8>)> = (number..servers.len())
        .step_by(RECEIVERS)
        .map(|at| (at, Vec::new()))
        .collect();
    let mut buffer = vec![0; 64 << 10];
    while !own.is_empty() {
        let mut polled: Vec<PollFd<'_>> = own
            .iter()
            .map(|(at, _)| PollFd::from_borrowed_fd(servers[*at].as_fd(), PollFlags::IN))
            .collect();
        poll(&mut polled, None)?;
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        let mut outcome = Ok(());
        own.retain_mut(|(at, rest)| {
            if ready.next() != Some(true) {
                return true;
            }
            match (&servers[*at]).read(&mut buffer) {
                Ok(0) => false,
                Ok(read) => {
                    rest.extend_from_slice(&buffer[..read]);
                    let frames = rest.len() / bytes;
                    if frames > 0 {
                        let whole = &rest[..frames * bytes];
                        for frame in whole.chunks(bytes) {
                            let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
                            std::hint::black_box(crc_fast::checksum(algorithm, frame));
                        }
                        let mut waiting = journal.waiting.lock().expect("nobody panics with it");
                        waiting.bytes.extend_from_slice(whole);
                        waiting.answers[*at] += frames;
                        drop(waiting);
                        rest.drain(..frames * bytes);
                    }
                    true
                }
                Err(error) => {
                    outcome = Err(error);
                    false
                }
            }
        });
        outcome?;
        journal.arrived.notify_one();
    }
    Ok(thread_cpu() - started)
}

/// Writes all waiting frames at once and responds. Returns the CPU seconds of the thread and the number of writes.
fn write(
    journal: &Journal,
    servers: &[TcpStream],
    file: &File,
    room: usize,
) -> Outcome<(f64, usize)> {
    let started = thread_cpu();
    let mut room = vec![0; room + BLOCK_BYTES];
    let first = room.as_ptr().align_offset(BLOCK_BYTES);
    let (mut at, mut writes) = (0, 0);
    let mut answers = vec![0; servers.len()];
    let answer = vec![0; 64 * ANSWER_BYTES];
    loop {
        let length = {
            let mut waiting = journal.waiting.lock().expect("nobody panics with it");
            while waiting.bytes.is_empty() {
                if journal.ended.load(Ordering::Acquire) {
                    return Ok((thread_cpu() - started, writes));
                }
                let held = journal
                    .arrived
                    .wait_timeout(waiting, Duration::from_millis(100));
                waiting = held.expect("nobody panics with it").0;
            }
            room[first..first + waiting.bytes.len()].copy_from_slice(&waiting.bytes);
            core::mem::swap(&mut waiting.answers, &mut answers);
            let length = waiting.bytes.len().next_multiple_of(BLOCK_BYTES);
            waiting.bytes.clear();
            length
        };
        if at + length as u64 > JOURNAL_BYTES {
            at = 0;
        }
        file.write_all_at(&room[first..first + length], at)?;
        at += length as u64;
        writes += 1;
        for (server, due) in servers.iter().zip(&mut answers) {
            let due = core::mem::take(due);
            if due > 0 {
                let mut server: &TcpStream = server;
                server.write_all(&answer[..due * ANSWER_BYTES])?;
            }
        }
    }
}

/// Sends a frame after each response until `end`. Returns the number of responses.
fn drive(mut socket: TcpStream, in_flight: usize, bytes: usize, end: Instant) -> Outcome<usize> {
    let frames = vec![7; in_flight * bytes];
    let mut answers = vec![0; in_flight * ANSWER_BYTES];
    socket.write_all(&frames)?;
    let (mut open, mut held, mut done) = (in_flight, 0, 0);
    while open > 0 {
        let read = match socket.read(&mut answers[held..]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            read => read?,
        };
        held += read;
        let answered = held / ANSWER_BYTES;
        held %= ANSWER_BYTES;
        done += answered;
        open -= answered;
        if Instant::now() < end && answered > 0 {
            socket.write_all(&frames[..answered * bytes])?;
            open += answered;
        }
    }
    Ok(done)
}
