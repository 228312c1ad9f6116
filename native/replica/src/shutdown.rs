//! Shutdown of the data plane.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::{Replicas, Role};

impl Replicas {
    /// Shut down cleanly after the last Produce request was answered: stop appends, then flush and close each
    /// directory, with snapshots, checkpoints and the clean-shutdown marker. A directory that is not closed after
    /// `timeout` gets no marker; the next start recovers it.
    ///
    /// # Errors
    /// One sentence for each directory that was not closed cleanly.
    pub fn shutdown(self: &Arc<Self>, timeout: Duration) -> Result<(), String> {
        let clock = &self.config.clock;
        let deadline = clock.now() + timeout;
        self.set_stopping();
        self.moves.cancel_all(timeout);
        let _orders = self.unhosted.lock();
        let (done, closed) = mpsc::channel();
        let mut waiting = 0;
        for at in 0..self.dirs.len() {
            let partitions = self.partitions_of(at);
            for partition in &partitions {
                partition.step_down(Role::Stopped { deleted: false });
            }
            let Ok(log_dir) = self.dirs.get(at).online() else {
                continue;
            };
            let logs: Vec<_> = partitions
                .iter()
                .filter_map(|partition| {
                    Some((Arc::clone(partition.log()?), partition.high_watermark()))
                })
                .collect();
            let (log_dir, done) = (Arc::clone(log_dir), done.clone());
            // Use a separate thread for each directory, so that a hanging disk does not delay the stop beyond its
            // timeout.
            let close = move || {
                let result = log_dir.close(&logs);
                // Drop these references before sending the result, because the caller may then release the directory's
                // lock.
                drop((log_dir, logs));
                drop(done.send((at, result)));
            };
            match std::thread::Builder::new()
                .name(format!("close-{at}"))
                .spawn(close)
            {
                Ok(_) => waiting += 1,
                Err(error) => return Err(format!("no thread to close log directories: {error}")),
            }
        }
        let mut problems = Vec::new();
        for _ in 0..waiting {
            match closed.recv_timeout(deadline.saturating_duration_since(clock.now())) {
                Ok((_, Ok(()))) => {}
                Ok((at, Err(error))) => {
                    problems.push(format!(
                        "{} was not closed cleanly: {error}",
                        self.dirs.get(at).path.display()
                    ));
                }
                Err(_) => {
                    problems.push("the log directories were not closed in time".to_owned());
                    break;
                }
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems.join("; "))
        }
    }
}
