//! Syncing in segments what is in the journal, so that it has room again.

use super::{Journaling, State};
use crate::error::StorageError;
use crate::flusher::sync_group;
use crate::journal::Journal;
use crate::log::Log;
use parking_lot::MutexGuard;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// What is in the journal for so long is synced in its segment, however much room there is.
const SYNC_AFTER: Duration = Duration::from_secs(5);

impl Journaling {
    /// Syncs in segments what is in the journal, file by file, until it is time to stop. `root`: for barriers, a
    /// descriptor of this thread.
    pub(in crate::flusher) fn run(&self, root: &File) {
        let mut state = self.state.lock();
        while !state.ended && self.health.check().is_ok() {
            let Some(current) = Self::to_sync(&state) else {
                self.wait(&mut state);
                continue;
            };
            let turns = state.turns;
            let logs: Vec<_> = state.logs[1 - current].values().cloned().collect();
            let synced = MutexGuard::unlocked(&mut state, || self.sync_logs(root, &logs));
            if !synced {
                self.wake.wait_for(&mut state, SYNC_AFTER);
                continue;
            }
            let unchanged = turns == state.turns;
            let State { journal, logs, .. } = &mut *state;
            if let Some(journal) = journal.as_mut().filter(|journal| journal.other_held())
                && unchanged
            {
                match journal.release_other() {
                    Ok(()) => logs[1 - current].clear(),
                    Err(error) => {
                        self.unless_full(error);
                        self.wake.wait_for(&mut state, SYNC_AFTER);
                    }
                }
            }
        }
    }

    /// The file that is written, if the other one is to be synced away.
    fn to_sync(state: &State) -> Option<usize> {
        let journal = state.journal.as_ref()?;
        journal.other_held().then(|| journal.current())
    }

    /// Until a file is full, or what is in it has been there for long.
    fn wait(&self, state: &mut MutexGuard<'_, State>) {
        let written = |state: &State| {
            let current = state.journal.as_ref().map_or(0, Journal::current);
            !state.logs[current].is_empty()
        };
        if !written(state) {
            return self.wake.wait(state);
        }
        let late = self.wake.wait_for(state, SYNC_AFTER).timed_out();
        if late && written(state) && !state.ended {
            let State { journal, turns, .. } = &mut **state;
            let changed = journal.as_mut().map_or(Ok(false), Journal::change_files);
            match changed {
                Ok(changed) => *turns += u64::from(changed),
                Err(error) => drop(self.failed(error)),
            }
        }
    }

    /// Syncs the logs' files; answers whether all that they had is there.
    fn sync_logs(&self, root: &File, logs: &[Arc<Log>]) -> bool {
        if logs.len() < self.syncfs_logs || cfg!(not(target_os = "linux")) {
            let synced = logs.iter().all(|log| match log.flush() {
                // It has left the journal.
                Ok(_) | Err(StorageError::Closed { .. }) => true,
                Err(_) => false,
            });
            if synced || cfg!(not(target_os = "linux")) {
                return synced;
            }
        }
        sync_group(root, &self.health, logs)
    }
}
