//! Invariants that need the nodes' state: committed records are on the disks of a majority, a replica's index matches
//! its log, and a leader can reach a majority.

use pybroker_quorum::{Batch, Body};

use crate::oracle::{Violation, require};
use crate::plan::SECOND;
use crate::world::World;

type Verdict = Result<(), Violation>;

impl World {
    /// Check a replica's new high watermark.
    pub(crate) fn commits(&mut self, node: usize, high_watermark: i64) -> Verdict {
        let place = &self.nodes[node];
        let (key, before) = (place.key(), place.applied);
        let (epoch, leads) = match &place.quorum {
            Some(quorum) => (quorum.state().epoch, quorum.is_leader()),
            None => return Ok(()),
        };
        require!(
            high_watermark > before,
            "the high watermark does not go back",
            "{key:?}: {high_watermark} after {before}"
        );
        let log = &place.disk.cached;
        for entry in &log.entries[log.index_after(before)..] {
            if entry.batch.end_offset() > high_watermark {
                break;
            }
            self.oracle.commits(key, epoch, entry)?;
        }
        require!(
            log.chain_at(high_watermark).is_some(),
            "what is committed is in the log",
            "{key:?}: {high_watermark} of {}",
            log.end()
        );
        if leads {
            let last = log.entries.get(log.index_after(high_watermark - 1));
            require!(
                last.is_none_or(|entry| entry.batch.epoch == epoch),
                "a leader commits by a record of its epoch",
                "{key:?} in epoch {epoch} commits {high_watermark}"
            );
            self.check_majority(node, high_watermark)?;
        }
        self.nodes[node].applied = high_watermark;
        Ok(())
    }

    /// Check that a leader's commit is on the disks of a majority of its voters. A lost disk counts, because it may
    /// have had the records.
    fn check_majority(&self, leader: usize, end: i64) -> Verdict {
        let log = &self.nodes[leader].disk.cached;
        let chain = log.chain_at(end);
        let has = |index: usize| {
            let durable = &self.nodes[index].disk.durable;
            durable.start.offset >= end || durable.chain_at(end) == chain
        };
        let voters = log.voters();
        let count = voters
            .iter()
            .filter(|&voter| self.node_of(voter).is_none_or(has))
            .count();
        require!(
            count >= voters.majority(),
            "what is committed is on a majority's disks",
            "node {leader} commits {end}: on {count} of {voters:?}"
        );
        Ok(())
    }

    /// Check that a replica's index matches its log.
    pub(crate) fn check_log(&self, node: usize) -> Verdict {
        let place = &self.nodes[node];
        let Some(quorum) = &place.quorum else {
            return Ok(());
        };
        let log = &place.disk.cached;
        let (end, known_end) = (log.end(), quorum.log().end_offset());
        require!(
            end == known_end,
            "a replica knows its log",
            "node {node}: {known_end}, not {end}"
        );
        let (voters, known) = (log.voters(), quorum.voters());
        require!(
            voters == known,
            "the last voters are in force",
            "node {node}: {known:?}, not {voters:?}"
        );
        let (id, known) = (log.topic_id(), quorum.log().topic_id().map(|(_, id)| id));
        require!(
            id == known,
            "the log's topic id is known",
            "node {node}: {known:?}, not {id:?}"
        );
        Ok(())
    }

    /// Check that a leader changes the voters only after the previous change, and a record of its epoch, are committed.
    pub(crate) fn check_appended_voters(&self, node: usize, batches: &[Batch<u64>]) -> Verdict {
        let place = &self.nodes[node];
        let Some(quorum) = place.quorum.as_ref().filter(|quorum| quorum.is_leader()) else {
            return Ok(());
        };
        for batch in batches {
            let Body::Voters(voters) = &batch.body else {
                continue;
            };
            let mut log = place.disk.cached.clone();
            log.truncate(batch.base_offset);
            if log.voters() == voters {
                continue;
            }
            let last = log
                .entries
                .iter()
                .rev()
                .find(|entry| matches!(entry.batch.body, Body::Voters(_)));
            let end = last.map_or(0, |entry| entry.batch.end_offset());
            let applied = place.applied;
            require!(
                end <= applied,
                "a voter change waits for the one before",
                "node {node}: {voters:?} at {}, before at {end}, committed {applied}",
                batch.base_offset
            );
            log.truncate(applied);
            let own = log
                .entries
                .last()
                .is_none_or(|entry| entry.batch.epoch == quorum.state().epoch);
            require!(
                own || log.start.epoch == quorum.state().epoch,
                "a voter change waits for a commit in its epoch",
                "node {node}: {voters:?} at {}",
                batch.base_offset
            );
        }
        Ok(())
    }

    /// Check that leaders step down if they cannot reach a majority or are no longer voters.
    pub(crate) fn check_leaders(&mut self) -> Verdict {
        for node in 0..self.nodes.len() {
            let place = &self.nodes[node];
            let Some(quorum) = place.quorum.as_ref().filter(|quorum| quorum.is_leader()) else {
                self.nodes[node].isolated_since = None;
                continue;
            };
            let voters = place.disk.cached.voters();
            let removed =
                quorum.log().voters_end() <= place.applied && !voters.contains(place.key());
            require!(
                !removed,
                "a removed leader resigns",
                "node {node}, voters {voters:?}"
            );
            let reaches = voters.iter().filter(|&voter| {
                self.node_of(voter).is_some_and(|other| {
                    let there = &self.nodes[other];
                    let fetched_at = place.fetched_at.get(other).copied().flatten();
                    let fetches = fetched_at.is_some_and(|at| self.now - at < SECOND);
                    let alive = there.quorum.is_some() && there.paused_until <= self.now;
                    let connected = alive && self.network.connects_both(node, other);
                    other == node || fetches || connected
                })
            });
            let paused = place.paused_until > self.now;
            let isolated_since = match reaches.count() >= voters.majority() || paused {
                true => None,
                false => Some(place.isolated_since.unwrap_or(self.now)),
            };
            let isolated = isolated_since.map_or(0, |since| self.now - since);
            require!(
                isolated < 4 * SECOND,
                "a leader without a majority resigns",
                "node {node} leads {isolated} us after it lost the majority"
            );
            self.nodes[node].isolated_since = isolated_since;
        }
        Ok(())
    }
}
