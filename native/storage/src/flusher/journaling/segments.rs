//! Syncs the journal's records in their segments, which frees the journal's space.

use super::{DirectoryJournal, State};
use crate::error::StorageError;
use crate::flusher::sync_group;
use crate::journal::Journal;
use crate::log::Log;
use parking_lot::MutexGuard;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// Records older than this are synced in their segment, even if the journal has space.
const SYNC_AFTER: Duration = Duration::from_secs(5);
/// How long to wait after a full disk.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Period over which the syncs are spread if the journal has space, because each sync delays writes to the journal.
const SPREAD_OVER: Duration = Duration::from_millis(2_500);
/// Assumed duration of one sync. If the period is too short for one sync per log, all logs are synced together.
const SYNC_TAKES: Duration = Duration::from_millis(2);

impl DirectoryJournal {
    /// Sync the journal's records in their segments, one journal file after the other, until the stop. `root` is this
    /// thread's descriptor for barriers.
    pub(in crate::flusher) fn run(&self, root: &File) {
        let mut state = self.state.lock();
        while !state.ended && self.health.check().is_ok() {
            let Some(current) = Self::to_sync(&state) else {
                self.wait(&mut state);
                continue;
            };
            let turns = state.turns;
            let logs: Vec<_> = state.logs[1 - current].values().cloned().collect();
            let synced = self.sync_logs(&mut state, root, &logs);
            if !synced {
                self.wake.wait_for(&mut state, RETRY_AFTER);
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
                        self.wake.wait_for(&mut state, RETRY_AFTER);
                    }
                }
            }
        }
    }

    /// Return the current journal file if the records of the other file must be synced in their segments.
    fn to_sync(state: &State) -> Option<usize> {
        let journal = state.journal.as_ref()?;
        journal.other_held().then(|| journal.current())
    }

    /// Wait until a journal file is full, or its content is old.
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

    /// Sync the logs' files; return whether all succeeded.
    fn sync_logs(
        &self,
        state: &mut MutexGuard<'_, State>,
        root: &File,
        mut logs: &[Arc<Log>],
    ) -> bool {
        let all = logs.len();
        while let [log, rest @ ..] = logs
            && let Some(pause) = self.pause(state, all, logs.len())
        {
            let synced = MutexGuard::unlocked(state, || sync_one(log));
            if !synced {
                return false;
            }
            logs = rest;
            if !pause.is_zero() && !logs.is_empty() {
                self.wake.wait_for(state, pause);
            }
        }
        logs.is_empty() || MutexGuard::unlocked(state, || sync_group(root, &self.health, logs))
    }

    fn pause(&self, state: &State, all: usize, left: usize) -> Option<Duration> {
        let hurry = state.ended || state.journal.as_ref().is_none_or(Journal::is_half_full);
        let together = left >= self.syncfs_logs && cfg!(target_os = "linux");
        pause(all, together, hurry)
    }
}

/// Return the pause after each log's sync if `logs` logs must be synced, or `None` to sync the remaining ones together.
///
/// `together`: one `syncfs` for the remaining logs is faster. `hurry`: the journal needs the space soon.
fn pause(logs: usize, together: bool, hurry: bool) -> Option<Duration> {
    let logs = u32::try_from(logs).unwrap_or(u32::MAX);
    if hurry {
        return (!together).then_some(Duration::ZERO);
    }
    let fits = SYNC_TAKES.saturating_mul(logs) <= SPREAD_OVER;
    (fits || !together).then(|| SPREAD_OVER / logs.max(1))
}

/// Sync a log's files; return whether it succeeded.
fn sync_one(log: &Log) -> bool {
    match log.flush_beside() {
        // A closed log has already left the journal.
        Ok(()) | Err(StorageError::Closed { .. }) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_are_spread_while_there_is_room() {
        for (logs, together, hurry, expected) in [
            (1, false, false, Some(SPREAD_OVER)),
            (16, false, false, Some(SPREAD_OVER / 16)),
            (1_000, true, false, Some(SPREAD_OVER / 1_000)),
            // There are too many logs to spread their syncs over that period.
            (10_000, true, false, None),
            // syncfs is unavailable or disabled by the setting.
            (10_000, false, false, Some(SPREAD_OVER / 10_000)),
            (16, false, true, Some(Duration::ZERO)),
            (1_000, true, true, None),
        ] {
            assert_eq!(
                pause(logs, together, hurry),
                expected,
                "{logs} {together} {hurry}"
            );
        }
    }
}
