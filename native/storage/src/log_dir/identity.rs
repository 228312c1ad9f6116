//! `meta.properties`: the owner of a log directory.

use super::options::LogDirOptions;
use crate::error::StorageError;
use crate::file_names::META_PROPERTIES;
use crate::files;
use pybroker_model::Uuid;
use std::collections::HashMap;
use std::path::Path;

const PROPERTIES_BYTES_MAX: u64 = 64 << 10;
/// Format number. A release raises it if older releases would misread its data; these releases then refuse to start.
const FORMAT: u32 = 1;
/// Format number while a journal may hold records that the logs' files lack.
const FORMAT_WITH_JOURNAL: u32 = 2;
const FORMAT_KEY: &str = "pybroker.format";
const JOURNAL_KEY: &str = "pybroker.journal";

/// Content of `meta.properties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Id of the directory.
    pub(super) directory_id: Uuid,
    /// Journal to replay before any log is opened.
    pub(super) journal: Option<Uuid>,
}

/// Check that the directory belongs to this broker and cluster. A new directory is assigned to them.
pub(super) fn claim(dir: &Path, options: &LogDirOptions) -> Result<Identity, StorageError> {
    let path = dir.join(META_PROPERTIES);
    let Some(content) = files::read_if_there(&path, PROPERTIES_BYTES_MAX)? else {
        let directory_id = Uuid::random();
        files::write_atomically(&path, render(options, directory_id).as_bytes())?;
        return Ok(Identity {
            directory_id,
            journal: None,
        });
    };
    let corrupt = |reason: String| StorageError::Corrupt {
        path: path.clone(),
        reason,
    };
    let text = String::from_utf8(content).map_err(|_| corrupt("not text".into()))?;
    let properties: HashMap<&str, &str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with(['#', '!']))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    let foreign = |found: String, expected: String| StorageError::Foreign {
        path: path.clone(),
        found,
        expected,
    };
    if let Some(format) = properties.get(FORMAT_KEY) {
        let format: u32 = format
            .parse()
            .map_err(|_| corrupt(format!("pybroker.format {format:?}")))?;
        if format > FORMAT_WITH_JOURNAL {
            return Err(foreign(
                format!("a newer pybroker (format {format})"),
                format!("format {FORMAT_WITH_JOURNAL}"),
            ));
        }
    }
    let cluster = properties
        .get("cluster.id")
        .ok_or_else(|| corrupt("no cluster.id".into()))?;
    if *cluster != options.cluster_id {
        return Err(foreign(
            format!("cluster {cluster}"),
            format!("cluster {}", options.cluster_id),
        ));
    }
    // In KRaft mode, Kafka writes node.id instead.
    let broker = properties
        .get("broker.id")
        .or_else(|| properties.get("node.id"));
    let broker = broker.ok_or_else(|| corrupt("no broker.id".into()))?;
    if *broker != options.broker_id.to_string() {
        return Err(foreign(
            format!("broker {broker}"),
            format!("broker {}", options.broker_id),
        ));
    }
    let parse = |text: &&str| Uuid::parse(text).map_err(|error| corrupt(error.to_string()));
    let journal = properties.get(JOURNAL_KEY).map(parse).transpose()?;
    let with_journal = FORMAT_WITH_JOURNAL.to_string();
    if journal.is_none() && properties.get(FORMAT_KEY).copied() == Some(&with_journal) {
        return Err(corrupt(format!(
            "{FORMAT_KEY} {with_journal} without {JOURNAL_KEY}"
        )));
    }
    let directory_id = match properties.get("directory.id") {
        Some(text) => parse(text)?,
        None => {
            let id = Uuid::random();
            files::write_atomically(&path, render(options, id).as_bytes())?;
            id
        }
    };
    Ok(Identity {
        directory_id,
        journal,
    })
}

/// Record durably whether there is a journal. Keeps the rest of the file.
pub(super) fn note_journal(dir: &Path, journal: Option<Uuid>) -> Result<(), StorageError> {
    let path = dir.join(META_PROPERTIES);
    let content = files::read_if_there(&path, PROPERTIES_BYTES_MAX)?.unwrap_or_default();
    let ours = [FORMAT_KEY, JOURNAL_KEY];
    let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let mut text: String = String::from_utf8_lossy(&content)
        .lines()
        .filter(|line| !ours.contains(&key(line).as_str()))
        .flat_map(|line| [line, "\n"])
        .collect();
    match journal {
        None => text.push_str(&format!("{FORMAT_KEY}={FORMAT}\n")),
        Some(id) => text.push_str(&format!(
            "{FORMAT_KEY}={FORMAT_WITH_JOURNAL}\n{JOURNAL_KEY}={id}\n"
        )),
    }
    files::write_atomically(&path, text.as_bytes())
}

/// Return the content of `meta.properties` for a directory that this broker claims.
pub(super) fn render(options: &LogDirOptions, directory_id: Uuid) -> String {
    format!(
        "version=0\nbroker.id={}\ncluster.id={}\ndirectory.id={directory_id}\npybroker.format={FORMAT}\n",
        options.broker_id, options.cluster_id
    )
}
