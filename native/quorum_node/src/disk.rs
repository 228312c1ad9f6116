//! The disk thread: flushes and writes of the quorum state, one after the other.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use pybroker_metadata_log::{Directory, Flush, StateWrite};

use crate::inbox::{Inbox, Input};

/// A job of the disk thread.
pub(crate) enum Job {
    Flush {
        ticket: u64,
        flush: Flush<Directory>,
    },
    WriteState {
        ticket: u64,
        write: StateWrite<Directory>,
    },
    /// Report that all earlier jobs are done.
    Drain,
}

/// The disk thread. It ends when its jobs are done and the sender is dropped.
pub(crate) struct Disk {
    jobs: Option<Sender<Job>>,
}

impl Disk {
    pub(crate) fn start(inbox: Inbox) -> io::Result<(Self, JoinHandle<()>)> {
        let (jobs, queue) = channel();
        let thread = std::thread::Builder::new()
            .name("quorum-disk".into())
            .spawn(move || run(&queue, &inbox))?;
        Ok((Self { jobs: Some(jobs) }, thread))
    }

    pub(crate) fn push(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // After a failure the thread has ended and the node has halted.
            let _ = jobs.send(job);
        }
    }

    /// Let the thread end when its jobs are done.
    pub(crate) fn close(&mut self) {
        self.jobs = None;
    }
}

fn run(queue: &Receiver<Job>, inbox: &Inbox) {
    while let Ok(job) = queue.recv() {
        let done = match job {
            Job::Flush { ticket, flush } => flush.run().map(|()| Input::Flushed { ticket }),
            Job::WriteState { ticket, write } => {
                write.run().map(|()| Input::StateWritten { ticket })
            }
            Job::Drain => Ok(Input::Drained),
        };
        match done {
            Ok(done) => inbox.push(done),
            Err(error) if error.is_full() => inbox.push(Input::StorageFailed(error)),
            // Do not repeat a failed sync: the page cache may have dropped the writes.
            Err(error) => return inbox.push(Input::StorageFailed(error)),
        }
    }
}
