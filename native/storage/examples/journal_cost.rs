//! Measures the cost of a flush group in two ways: as the broker would without a journal (each log's file is synced),
//! and through one preallocated journal that all logs of the directory share. The logs' own files are then synced
//! later, when half of the journal is full.
//!
//! `cargo run --release -p pybroker-storage --example journal_cost [directory [partitions [bytes]]]`
//!
//! A third way bypasses the page cache: O_DIRECT with O_DSYNC instead of `fdatasync`.
//!
//! A group is one append to each of several logs, then the flush that all of them wait for. The example uses only files
//! and system calls, none of the broker's own code, so it measures the limits of the disk and the file system.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Failure = Box<dyn Error>;

const BLOCK: usize = 4096;
/// Size of each of the two halves. When one is full, the files of the logs in it are synced.
const HALF_BYTES: u64 = 64 << 20;
/// Bytes that one scheme appends for one row of the result table.
const ROW_BYTES: usize = 1 << 30;
const ROUNDS_MAX: usize = 2_000;
const GROUP_BYTES_MAX: usize = 64 << 20;
const THREADS: usize = 4;
/// Number of logs from which one `syncfs` syncs them all, as in the flusher.
const SYNCFS_LOGS: usize = 64;

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    /// Each log's file is synced, either on four threads or by one `syncfs`.
    Files,
    /// Entries go to the journal through the page cache, then `fdatasync`.
    Cached,
    /// Entries bypass the page cache; each write to the journal is durable when it returns.
    Direct,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().unwrap_or_else(|| ".".into());
    let only_partitions: Option<usize> = arguments.next().map(|text| text.parse()).transpose()?;
    let only_bytes: Option<usize> = arguments.next().map(|text| text.parse()).transpose()?;
    println!("each: p50 / p99 ms a group, CPU µs a group (this process)");
    println!("| logs × bytes | each file | journal, cached | journal, direct |");
    println!("|---|---|---|---|");
    for partitions in [1, 16, 200, 1000] {
        for bytes in [170, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let left_out = only_partitions.is_some_and(|only| only != partitions)
                || only_bytes.is_some_and(|only| only != bytes);
            if left_out || partitions * bytes > GROUP_BYTES_MAX {
                continue;
            }
            let mut cells = Vec::new();
            for scheme in [Scheme::Files, Scheme::Cached, Scheme::Direct] {
                cells.push(measure(Path::new(&parent), partitions, bytes, scheme)?);
            }
            println!("| {partitions} × {bytes} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}

/// Return the CPU time that this process has used.
fn cpu() -> Result<Duration, Failure> {
    let mut total = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        total += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

fn measure(
    parent: &Path,
    partitions: usize,
    bytes: usize,
    scheme: Scheme,
) -> Result<String, Failure> {
    let temp = tempfile::tempdir_in(parent)?;
    let rounds = (ROW_BYTES / (partitions * bytes)).clamp(20, ROUNDS_MAX);
    let rounds = if scheme == Scheme::Files && partitions >= 200 {
        rounds.min(300)
    } else {
        rounds
    };
    let root = Arc::new(File::open(temp.path())?);
    let files: Vec<_> = (0..partitions)
        .map(|at| File::create_new(temp.path().join(format!("{at}.log"))).map(Arc::new))
        .collect::<Result<_, _>>()?;
    let files = Arc::new(files);
    let mut journal = match scheme {
        Scheme::Files => None,
        _ => Some(Journal::create(temp.path(), scheme, &root, &files)?),
    };
    rustix::fs::syncfs(&root)?;
    let mut syncer = Syncer::start(&files);
    let batch = vec![7; bytes];
    let mut times = Vec::with_capacity(rounds);
    let before = cpu()?;
    let begun = Instant::now();
    for round in 0..rounds {
        for file in files.iter() {
            file.write_all_at(&batch, (round * bytes) as u64)?;
        }
        let start = Instant::now();
        match &mut journal {
            Some(journal) => journal.write(&batch, partitions)?,
            None if partitions >= SYNCFS_LOGS => rustix::fs::syncfs(&root)?,
            None => syncer.sync()?,
        }
        times.push(start.elapsed());
    }
    let journal = journal.map(Journal::finish).transpose()?;
    let wall = begun.elapsed();
    let used = cpu()? - before;
    // Stop the syncer first, because otherwise the next count would miss its CPU time.
    syncer.stop();
    if let Some(Journal { full, thread, .. }) = journal {
        drop(full);
        join(vec![thread]);
    }
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(format!(
        "{:.3} / {:.2}, {:.0} ({:.0} groups/s)",
        ms(times[rounds / 2]),
        ms(times[rounds * 99 / 100]),
        used.as_secs_f64() * 1e6 / rounds as f64,
        rounds as f64 / wall.as_secs_f64()
    ))
}

/// Calls `fdatasync` for every file on several threads, as the flusher does.
struct Syncer {
    work: Vec<SyncSender<()>>,
    done: Receiver<std::io::Result<()>>,
    next: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Syncer {
    fn start(files: &Arc<Vec<Arc<File>>>) -> Self {
        let next = Arc::new(AtomicUsize::new(0));
        let (told, done) = sync_channel(THREADS);
        let (mut work, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..THREADS.min(files.len()) {
            let (sender, receiver) = sync_channel::<()>(1);
            let (files, next, told) = (Arc::clone(files), Arc::clone(&next), told.clone());
            threads.push(std::thread::spawn(move || {
                while receiver.recv().is_ok() {
                    let mut result = Ok(());
                    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        result = result.and(file.sync_data());
                    }
                    if told.send(result).is_err() {
                        return;
                    }
                }
            }));
            work.push(sender);
        }
        Self {
            work,
            done,
            next,
            threads,
        }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.next.store(0, Ordering::Relaxed);
        for work in &self.work {
            work.send(())?;
        }
        for _ in &self.work {
            self.done.recv()??;
        }
        Ok(())
    }

    fn stop(self) {
        drop(self.work);
        join(self.threads);
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("none panics");
    }
}

/// Two halves in one file with allocated blocks.
struct Journal {
    file: File,
    position: u64,
    buffer: Vec<u8>,
    direct: bool,
    /// Channel to the thread that syncs the logs' files; its answer frees a half.
    full: SyncSender<()>,
    freed: Receiver<std::io::Result<()>>,
    thread: JoinHandle<()>,
    first: bool,
}

impl Journal {
    fn create(
        dir: &Path,
        scheme: Scheme,
        root: &Arc<File>,
        files: &Arc<Vec<Arc<File>>>,
    ) -> Result<Self, Failure> {
        let path = dir.join("journal");
        let zeros = vec![0; 1 << 20];
        let file = File::create_new(&path)?;
        for at in 0..((2 * HALF_BYTES) >> 20) {
            file.write_all_at(&zeros, at << 20)?;
        }
        file.sync_all()?;
        let direct = scheme == Scheme::Direct;
        let flags = if direct {
            (rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::DSYNC).bits() as i32
        } else {
            0
        };
        let file = File::options().write(true).custom_flags(flags).open(path)?;
        let (full, wanted) = sync_channel::<()>(1);
        let (free, freed) = sync_channel(1);
        let (root, files) = (Arc::clone(root), Arc::clone(files));
        let thread = std::thread::spawn(move || {
            while wanted.recv().is_ok() {
                let result = if files.len() >= SYNCFS_LOGS {
                    rustix::fs::syncfs(&root).map_err(Into::into)
                } else {
                    files.iter().try_for_each(|file| file.sync_data())
                };
                if free.send(result).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            file,
            position: 0,
            buffer: vec![0; GROUP_BYTES_MAX + (1 << 20)],
            direct,
            full,
            freed,
            thread,
            first: true,
        })
    }

    /// Write one entry for each of `partitions` logs: gather, write, make durable.
    fn write(&mut self, batch: &[u8], partitions: usize) -> Result<(), Failure> {
        const ENTRY_HEADER: usize = 64;
        let border = self.buffer.as_ptr().align_offset(BLOCK);
        let mut end = border;
        for _ in 0..partitions {
            end += ENTRY_HEADER;
            self.buffer[end..end + batch.len()].copy_from_slice(batch);
            end += batch.len();
        }
        let length = (end - border).next_multiple_of(BLOCK);
        let half = self.position / HALF_BYTES;
        if self.position + length as u64 > (half + 1) * HALF_BYTES {
            self.change_halves(1 - half)?;
        }
        let written = &self.buffer[border..border + length];
        self.file.write_all_at(written, self.position)?;
        if !self.direct {
            self.file.sync_data()?;
        }
        self.position += length as u64;
        Ok(())
    }

    /// Switch to the other half after its logs are synced, and have the full half synced.
    fn change_halves(&mut self, next: u64) -> Result<(), Failure> {
        if !self.first {
            self.freed.recv()??;
        }
        self.first = false;
        self.full.send(())?;
        self.position = next * HALF_BYTES;
        Ok(())
    }

    /// Include the syncs that are still pending.
    fn finish(mut self) -> Result<Self, Failure> {
        self.change_halves(0)?;
        self.freed.recv()??;
        Ok(self)
    }
}
