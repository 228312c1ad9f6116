//! Handling of a full disk. The node gives up its role. Once there is room it opens the log again, as after a crash of
//! the process, and recovery removes an incomplete write.

use std::io;

use pybroker_metadata_log::{Directory, FileHandle, Files, LogError, MetadataLog};
use pybroker_quorum::{Answer, Error, Event, Quorum, Refusal, Response};

use super::{Driver, machine_settings};
use crate::disk::Job;
use crate::inbox::Input;
use crate::output::{Outcome, Output};
use crate::wire::Payload;

/// Interval at which a node with a full disk checks for room.
const RETRY_MS: u64 = 1000;
/// Free bytes that a node needs to continue: one fetch from the leader.
const ROOM_BYTES: usize = 1 << 20;
/// Distance between the first correlations of consecutive state machines in a process.
const CORRELATIONS: u64 = 1 << 40;
/// Suffix of the file that tests for free space. Recovery removes files with this suffix.
const PROBE: &str = "room.tmp";

/// The state of a node that waits for free space.
#[derive(Debug, Default)]
pub(super) struct WaitForRoom {
    /// Time of the next attempt; `None` until the disk thread has finished its earlier jobs.
    retry_at: Option<u64>,
}

impl WaitForRoom {
    /// Return the time of the next check for free space.
    pub(super) fn deadline(&self) -> u64 {
        self.retry_at.unwrap_or(u64::MAX)
    }
}

/// Return whether another [`ROOM_BYTES`] can be written to the disk.
fn has_room(files: &Directory) -> bool {
    let write = || -> io::Result<()> {
        let file = files.create(PROBE)?;
        FileHandle::write_at(&file, &vec![0; ROOM_BYTES], 0)
    };
    let written = write().is_ok();
    written & files.remove(PROBE).is_ok()
}

impl Driver {
    /// Give up the role until there is free space. The disk thread first finishes its jobs. Then the node opens the log
    /// again, because a write may have failed half way.
    pub(super) fn wait_for_room(&mut self, error: &LogError) {
        if self.full.is_some() {
            return;
        }
        self.outbox.push(Output::Room(Some(error.to_string())));
        self.full = Some(WaitForRoom::default());
        self.asked.clear();
        self.download = None;
        // A leader resigns, so that the other voters can elect another one at once.
        let resign = Event::Resign { successor: None };
        self.give_up_role([resign, Event::StorageFailed]);
        self.disk.push(Job::Drain);
        let unanswered: Vec<u64> = self.replies.keys().copied().collect();
        for handle in unanswered {
            self.refuse(handle);
        }
        self.give_up_proposals();
    }

    /// Process an input while the disk is full.
    pub(super) fn take_in_full(&mut self, input: Input) -> Result<(), LogError> {
        match input {
            Input::Drained => {
                let retry_at = Some(self.clock.monotonic_ms() + RETRY_MS);
                self.full = Some(WaitForRoom { retry_at });
            }
            Input::Request { handle, incoming } => {
                self.replies.insert(handle, incoming.reply);
                self.refuse(handle);
            }
            Input::AddVoter { proposal, .. } | Input::RemoveVoter { proposal, .. } => {
                let outcome = Outcome::Refused(Refusal::NotLeader);
                self.outbox.push(Output::Decided { proposal, outcome });
            }
            Input::StorageFailed(error) if !error.is_full() => return Err(error),
            // Ignore a completed snapshot: recovery finds it when the log is opened again.
            _ => {}
        }
        Ok(())
    }

    /// Refuse a request while the disk is full: this node leads no epoch and votes in none.
    fn refuse(&mut self, handle: u64) {
        let response = Response {
            error: Error::NotLeader,
            epoch: self.quorum.state().epoch,
            leader: None,
            answer: Answer::Empty,
        };
        self.respond(handle, &response, &Payload::default());
    }

    /// Once there is room, open the log again and continue with a new state machine, as after a restart of the process.
    pub(super) fn reopen_if_room(&mut self) {
        let now = self.clock.monotonic_ms();
        let retry_at = Some(now + RETRY_MS);
        self.full = Some(WaitForRoom { retry_at });
        if self.failed || self.stopped || !has_room(&self.files) {
            return;
        }
        match self.reopen(now) {
            Ok(()) => {
                self.outbox.push(Output::Room(None));
                self.step([Event::Time]);
            }
            Err(error) if error.is_full() => {}
            Err(error) => self.halt(&error),
        }
    }

    fn reopen(&mut self, now: u64) -> Result<(), LogError> {
        let (log, recovered) = MetadataLog::open(self.files.clone(), self.settings.log)?;
        self.delivery.reopen(&log, &self.outbox)?;
        self.log = log;
        for note in recovered.notes {
            self.warn(note);
        }
        self.first_correlation += CORRELATIONS;
        self.asked.clear();
        let machine = machine_settings(&self.settings, &self.sender);
        self.quorum = Quorum::new(machine, recovered.state, recovered.index, now);
        self.full = None;
        self.learn(recovered.endpoints);
        Ok(())
    }
}
