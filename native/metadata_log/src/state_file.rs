//! `quorum-state`: epoch, leader and vote, as JSON in Kafka's format (version 1), with the topic id as an additional
//! member.

use pybroker_model::Uuid;
use pybroker_quorum::{QuorumState, ReplicaKey};

use crate::error::LogError;
use crate::files::{FileHandle, Files};
use crate::names::{QUORUM_STATE, TEMPORARY};

const VERSION: i64 = 1;
const BYTES_MAX: usize = 4096;

/// A task that writes the quorum state. Any thread may run it.
#[derive(Debug)]
pub struct StateWrite<F> {
    files: F,
    state: QuorumState,
}

impl<F: Files> StateWrite<F> {
    pub(crate) fn new(files: F, state: QuorumState) -> Self {
        Self { files, state }
    }

    /// Replace the file atomically: after a crash it has the old or the new state. Once this function has returned, it
    /// has the new state.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn run(&self) -> Result<(), LogError> {
        let (files, name) = (&self.files, format!("{QUORUM_STATE}{TEMPORARY}"));
        let error = |operation| LogError::io(operation, files.path_of(QUORUM_STATE));
        let file = files.create(&name).map_err(error("create"))?;
        file.write_at(render(&self.state).as_bytes(), 0)
            .map_err(error("write"))?;
        file.sync().map_err(error("sync"))?;
        files
            .rename(&name, QUORUM_STATE)
            .map_err(error("replace"))?;
        files.sync_names().map_err(error("sync"))
    }
}

/// Read the state. If there is no file, return the state of a replica that has never voted.
pub(crate) fn read<F: Files>(files: &F, names: &[String]) -> Result<QuorumState, LogError> {
    if !names.iter().any(|name| name == QUORUM_STATE) {
        return Ok(QuorumState::default());
    }
    let path = || files.path_of(QUORUM_STATE);
    let file = files
        .open(QUORUM_STATE)
        .map_err(LogError::io("open", path()))?;
    let mut bytes = vec![0; BYTES_MAX];
    let read = file
        .read_at(&mut bytes, 0)
        .map_err(LogError::io("read", path()))?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    parse(&text).ok_or_else(|| LogError::Damaged {
        path: path(),
        reason: format!(
            "{:?} is not a quorum state of version {VERSION}",
            text.trim()
        ),
    })
}

fn render(state: &QuorumState) -> String {
    let leader = state.leader.unwrap_or(-1);
    let voted = state.voted.map_or(-1, |key| key.id);
    let directory = state.voted.map_or(Uuid::ZERO, |key| key.directory);
    let topic_id = state.topic_id.map_or(Uuid::ZERO, |id| id);
    format!(
        "{{\"leaderId\":{leader},\"leaderEpoch\":{},\"votedId\":{voted},\
         \"votedDirectoryId\":\"{directory}\",\"topicId\":\"{topic_id}\",\"data_version\":{VERSION}}}",
        state.epoch
    )
}

fn parse(text: &str) -> Option<QuorumState> {
    let members = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut state = QuorumState::default();
    let (mut epoch, mut version) = (None, None);
    let (mut voted, mut directory) = (None, Uuid::ZERO);
    // Splitting is safe: no value in this file contains a comma or a colon.
    for member in members.split(',') {
        let (name, value) = member.split_once(':')?;
        let (name, value) = (unquoted(name)?, value.trim());
        let id = || unquoted(value).and_then(|text| Uuid::parse(text).ok());
        match name {
            "leaderId" => state.leader = node(value)?,
            "leaderEpoch" => epoch = value.parse().ok(),
            "votedId" => voted = node(value)?,
            "votedDirectoryId" => directory = id()?,
            "topicId" => state.topic_id = Some(id()?).filter(|id| !id.is_zero()),
            "data_version" => version = value.parse().ok(),
            _ => return None,
        }
    }
    state.epoch = epoch.filter(|&epoch: &i32| epoch >= 0)?;
    state.voted = voted.map(|id| ReplicaKey { id, directory });
    (version == Some(VERSION)).then_some(state)
}

/// Parse a node id; -1 means none.
fn node(text: &str) -> Option<Option<i32>> {
    let id: i32 = text.parse().ok()?;
    Some((id >= 0).then_some(id))
}

fn unquoted(text: &str) -> Option<&str> {
    text.trim().strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_survives_its_file() {
        let directory = Uuid::from_u128(7);
        let voted = QuorumState {
            epoch: 5,
            leader: Some(3),
            voted: Some(ReplicaKey { id: 2, directory }),
            topic_id: Some(Uuid::from_u128(9)),
        };
        for state in [QuorumState::default(), voted] {
            assert_eq!(parse(&render(&state)), Some(state));
        }
        let spaced =
            "{ \"leaderId\": 1, \"leaderEpoch\": 2, \"votedId\": -1,\n \"data_version\": 1 }";
        let expected = QuorumState {
            epoch: 2,
            leader: Some(1),
            ..QuorumState::default()
        };
        assert_eq!(parse(spaced), Some(expected));
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "{}",
            "{\"leaderEpoch\":1,\"data_version\":0}",
            "{\"leaderEpoch\":1,\"data_version\":1,\"other\":1}",
            "{\"leaderEpoch\":-1,\"data_version\":1}",
            "{\"leaderEpoch\":1,\"data_version\":1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
