//! `meta.properties`: whose data a directory holds.

use super::options::LogDirOptions;
use crate::error::StorageError;
use crate::file_names::META_PROPERTIES;
use crate::files;
use pybroker_model::Uuid;
use std::collections::HashMap;
use std::path::Path;

const PROPERTIES_BYTES_MAX: u64 = 64 << 10;
/// Raised when a release writes what an older one would misread: that one then refuses to start.
const FORMAT: u32 = 1;

/// Checks that the directory belongs to this broker and cluster; claims it if it is new. Answers
/// the directory's own id.
pub(super) fn claim(dir: &Path, options: &LogDirOptions) -> Result<Uuid, StorageError> {
    let path = dir.join(META_PROPERTIES);
    let Some(content) = files::read_if_there(&path, PROPERTIES_BYTES_MAX)? else {
        let id = Uuid::random();
        files::write_atomically(&path, render(options, id).as_bytes())?;
        return Ok(id);
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
    if let Some(format) = properties.get("pybroker.format") {
        let format: u32 = format
            .parse()
            .map_err(|_| corrupt(format!("pybroker.format {format:?}")))?;
        if format > FORMAT {
            return Err(foreign(
                format!("a newer pybroker (format {format})"),
                format!("format {FORMAT}"),
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
    // KRaft's files say node.id for the same thing.
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
    match properties.get("directory.id") {
        Some(text) => Uuid::parse(text).map_err(|error| corrupt(error.to_string())),
        None => {
            let id = Uuid::random();
            files::write_atomically(&path, render(options, id).as_bytes())?;
            Ok(id)
        }
    }
}

/// The content of `meta.properties` for a directory that this broker claims.
pub(super) fn render(options: &LogDirOptions, directory_id: Uuid) -> String {
    format!(
        "version=0\nbroker.id={}\ncluster.id={}\ndirectory.id={directory_id}\npybroker.format={FORMAT}\n",
        options.broker_id, options.cluster_id
    )
}
