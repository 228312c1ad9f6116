//! The upper limit of any broker on this machine: the least work of a produce and a fetch.
//!
//! ```text
//! pybroker-limit produce CONNECTIONS MEGABYTES DIR [BYTES [PACE [SYNC]]]   receive a frame, CRC-32C, append to a file, short reply; five in flight
//! pybroker-limit fetch   CONNECTIONS MEGABYTES DIR [BYTES]                 short request, sendfile(2) of a frame from the page cache
//! pybroker-limit journal CONNECTIONS SECONDS DIR [BYTES [IN_FLIGHT]]       receive small frames, one write to the disk for all that wait, short replies
//! ```
//! A frame has BYTES bytes, 1 MiB unless given: small answers cost more a GB, because each has its request and wake-ups.
//! PACE: MB/s that the clients send, all together; who sends slower than the server can take finds it asleep and its caches cold, which costs
//! the server more a GB. SYNC: bytes of a file after which it is synced. 0: as fast as it goes, and never.
//! One line of JSON: GB (10^9 bytes) or requests a second, and CPU seconds a GB or µs a request of the serving threads alone.

mod journal;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

const FRAME_BYTES: usize = 1 << 20;
const IN_FLIGHT: usize = 5;
const CACHED_BYTES: usize = 256 << 20;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// CPU seconds of the calling thread, user and system.
fn thread_cpu() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Connected pairs on the loopback interface: (serving side, client side).
fn pairs(connections: usize) -> Outcome<Vec<(TcpStream, TcpStream)>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_congestion(&listener, "reno")?; // what is accepted does not pace, as the broker's
    let address = listener.local_addr()?;
    (0..connections)
        .map(|_| {
            let client = TcpStream::connect(address)?;
            let (server, _) = listener.accept()?;
            server.set_nodelay(true)?;
            client.set_nodelay(true)?;
            Ok((server, client))
        })
        .collect()
}

fn serve_produce(
    mut socket: TcpStream,
    frames: usize,
    bytes: usize,
    sync: usize,
    path: &Path,
) -> Outcome<f64> {
    let mut file = File::create(path)?;
    let mut frame = vec![0; bytes];
    let started = thread_cpu();
    let mut crc = 0;
    let mut dirty = 0;
    for _ in 0..frames {
        socket.read_exact(&mut frame)?;
        crc ^= crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &frame);
        file.write_all(&frame)?;
        dirty += bytes;
        if sync > 0 && dirty >= sync {
            file.sync_data()?;
            dirty = 0;
        }
        socket.write_all(&[0; 32])?;
    }
    std::hint::black_box(crc);
    let used = thread_cpu() - started;
    std::fs::remove_file(path)?;
    Ok(used)
}

/// `period`: time between frames; after a late frame the next one is sent sooner.
fn drive_produce(
    mut socket: TcpStream,
    frames: usize,
    bytes: usize,
    period: Duration,
) -> Outcome<()> {
    let mut answers = socket.try_clone()?;
    let frame = vec![7; bytes];
    let mut answer = [0; 32];
    let mut due = Instant::now();
    for sent in 0..frames {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due += period;
        socket.write_all(&frame)?;
        if sent >= IN_FLIGHT {
            answers.read_exact(&mut answer)?;
        }
    }
    for _ in 0..frames.min(IN_FLIGHT) {
        answers.read_exact(&mut answer)?;
    }
    Ok(())
}

fn serve_fetch(mut socket: TcpStream, frames: usize, bytes: usize, path: &Path) -> Outcome<f64> {
    let file = File::open(path)?;
    let mut request = [0; 32];
    let started = thread_cpu();
    for turn in 0..frames {
        socket.read_exact(&mut request)?;
        let mut position = ((turn % (CACHED_BYTES / bytes)) * bytes) as u64;
        let end = position + bytes as u64;
        while position < end {
            let left = (end - position) as usize;
            if rustix::fs::sendfile(&socket, &file, Some(&mut position), left)? == 0 {
                return Err("the file ended early".into());
            }
        }
    }
    Ok(thread_cpu() - started)
}

fn drive_fetch(mut socket: TcpStream, frames: usize, bytes: usize) -> Outcome<()> {
    let mut frame = vec![0; bytes];
    for _ in 0..frames {
        socket.write_all(&[1; 32])?;
        socket.read_exact(&mut frame)?;
    }
    Ok(())
}

fn measure(
    operation: &str,
    connections: usize,
    megabytes: usize,
    dir: &Path,
    bytes: usize,
    pace: usize,
    sync: usize,
) -> Outcome<String> {
    let frames = (megabytes * 1_000_000 / bytes / connections).max(1);
    let cached = dir.join("limit-fetch.log");
    if operation == "fetch" {
        std::fs::write(&cached, vec![7; CACHED_BYTES])?;
    }
    // Bytes over MB/s are microseconds.
    let period = (bytes * connections).checked_div(pace).unwrap_or(0);
    let period = Duration::from_micros(period as u64);
    let started = Instant::now();
    let mut serving = Vec::new();
    let mut driving = Vec::new();
    for (number, (server, client)) in pairs(connections)?.into_iter().enumerate() {
        let (path, fetch) = (
            dir.join(format!("limit-produce-{number}.log")),
            operation == "fetch",
        );
        let shared = cached.clone();
        serving.push(thread::spawn(move || {
            if fetch {
                serve_fetch(server, frames, bytes, &shared)
            } else {
                serve_produce(server, frames, bytes, sync, &path)
            }
        }));
        driving.push(thread::spawn(move || {
            if fetch {
                drive_fetch(client, frames, bytes)
            } else {
                drive_produce(client, frames, bytes, period)
            }
        }));
    }
    for thread in driving {
        thread.join().map_err(|_| "a client thread died")??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let mut used = 0.0;
    for thread in serving {
        used += thread.join().map_err(|_| "a serving thread died")??;
    }
    if operation == "fetch" {
        std::fs::remove_file(&cached)?;
    }
    let gigabytes = (frames * connections * bytes) as f64 / 1e9;
    Ok(format!(
        "{{\"operation\":\"{operation}\",\"connections\":{connections},\"mb_per_s\":{:.0},\"broker_cpu_s_per_gb\":{:.4}}}",
        gigabytes * 1e3 / seconds,
        used / gigabytes
    ))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let optional = |at: usize, default| {
        arguments
            .get(at)
            .map_or(Ok(default), |a| a.parse::<usize>().map_err(drop))
    };
    let bytes = optional(5, FRAME_BYTES);
    let (
        Some(operation),
        Some(Ok(connections)),
        Some(Ok(megabytes)),
        Some(dir),
        Ok(bytes),
        Ok(pace),
        Ok(sync),
    ) = (
        arguments
            .get(1)
            .filter(|o| ["produce", "fetch", "journal"].contains(&o.as_str())),
        arguments.get(2).map(|a| a.parse()),
        arguments.get(3).map(|a| a.parse()),
        arguments.get(4),
        bytes.and_then(|b| (1..=CACHED_BYTES).contains(&b).then_some(b).ok_or(())),
        optional(6, 0),
        optional(7, 0),
    )
    else {
        eprintln!(
            "usage: pybroker-limit produce|fetch|journal CONNECTIONS MEGABYTES|SECONDS DIR [BYTES [PACE|IN_FLIGHT [SYNC]]]"
        );
        return ExitCode::from(2);
    };
    let dir = Path::new(dir);
    let outcome = match operation.as_str() {
        "journal" => journal::measure(connections, pace.max(1), bytes, megabytes as u64, dir),
        _ => measure(operation, connections, megabytes, dir, bytes, pace, sync),
    };
    match outcome {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pybroker-limit {operation}: {error}");
            ExitCode::FAILURE
        }
    }
}
