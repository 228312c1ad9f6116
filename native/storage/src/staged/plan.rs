//! `plan`: the attempts that a commit lists for a partition, in the order of the log, and the brokers that have them on
//! disk. Each prepare of the commit writes another plan, and the decision names one of them.

use super::StagedPartition;
use crate::error::StorageError;
use crate::file_names::{self, LOG};
use crate::files;
use std::path::{Path, PathBuf};

/// Maximum size of a plan. Each attempt takes about 100 bytes.
const PLAN_BYTES_MAX: u64 = 64 << 20;

/// A committed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedAttempt {
    /// Number of the writer, which is also its position in the order.
    pub writer: i32,
    /// Number of the attempt.
    pub attempt: i64,
    /// Number of records.
    pub rows: i64,
    /// Bytes of the attempt's batches.
    pub bytes: u64,
}

/// A staged file that becomes a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StagedSegment {
    pub(crate) dir: PathBuf,
    /// Base offset in the staged log; it is part of the file name.
    pub(crate) staged_base: i64,
    pub(crate) rows: i64,
    pub(crate) bytes: u64,
}

/// Content of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) attempts: Vec<PlannedAttempt>,
    /// Ids of the brokers that have all records of the plan on disk.
    pub(crate) holders: Vec<i32>,
}

pub(crate) fn render(attempts: &[PlannedAttempt], holders: &[i32]) -> String {
    let holders: Vec<String> = holders.iter().map(ToString::to_string).collect();
    let mut text = format!("1\n{}\n{}\n", holders.join(" "), attempts.len());
    for one in attempts {
        text.push_str(&format!(
            "{} {} {} {}\n",
            one.writer, one.attempt, one.rows, one.bytes
        ));
    }
    text
}

fn parse(text: &str) -> Option<Plan> {
    let mut lines = text.lines();
    let holders = match lines.next()? {
        // The plan of an earlier build, which supported only a single broker.
        "0" => Vec::new(),
        "1" => {
            let ids = lines.next()?.split_whitespace();
            ids.map(|id| id.parse().ok()).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let count: usize = lines.next()?.parse().ok()?;
    let attempts: Vec<PlannedAttempt> = lines
        .map(|line| {
            let mut fields = line.split(' ');
            let attempt = PlannedAttempt {
                writer: fields.next()?.parse().ok()?,
                attempt: fields.next()?.parse().ok()?,
                rows: fields.next()?.parse().ok()?,
                bytes: fields.next()?.parse().ok()?,
            };
            fields.next().is_none().then_some(attempt)
        })
        .collect::<Option<_>>()?;
    (attempts.len() == count).then_some(Plan { attempts, holders })
}

/// Read the plan of a partition of an ingest.
pub(crate) fn read(place: &StagedPartition) -> Result<Plan, StorageError> {
    let path = place.plan_path();
    let corrupt = |reason: &str| StorageError::Corrupt {
        path: path.clone(),
        reason: reason.into(),
    };
    let content =
        files::read_if_there(&path, PLAN_BYTES_MAX)?.ok_or_else(|| corrupt("is missing"))?;
    std::str::from_utf8(&content)
        .ok()
        .and_then(parse)
        .ok_or_else(|| corrupt("not a plan"))
}

/// Return the files of the plan, in order. They must be unchanged since the plan was written.
pub(crate) fn segments(place: &StagedPartition) -> Result<Vec<StagedSegment>, StorageError> {
    let path = place.plan_path();
    let corrupt = |reason: String| StorageError::Corrupt {
        path: path.clone(),
        reason,
    };
    let mut all = Vec::new();
    for planned in read(place)?.attempts {
        let dir = place.attempt(planned.writer, planned.attempt);
        let found = segments_of(&dir, planned.rows)?;
        let bytes: u64 = found.iter().map(|segment| segment.bytes).sum();
        if bytes != planned.bytes || found.iter().any(|segment| segment.rows <= 0) {
            return Err(corrupt(format!(
                "{} has {bytes} bytes instead of the planned {}",
                dir.display(),
                planned.bytes
            )));
        }
        all.extend(found);
    }
    Ok(all)
}

fn segments_of(dir: &Path, rows: i64) -> Result<Vec<StagedSegment>, StorageError> {
    let mut files = Vec::new();
    for entry in files::entries(dir)? {
        let name = entry.file_name();
        if let Some((base, LOG)) = name.to_str().and_then(file_names::offset_and_suffix) {
            let looked_at = entry.metadata();
            let metadata = looked_at.map_err(StorageError::io("look at", &entry.path()))?;
            if metadata.len() > 0 {
                files.push((base, metadata.len()));
            }
        }
    }
    files.sort_unstable();
    let ends: Vec<i64> = files
        .iter()
        .skip(1)
        .map(|&(base, _)| base)
        .chain([rows])
        .collect();
    let each = files.into_iter().zip(ends);
    Ok(each
        .map(|((staged_base, bytes), end)| StagedSegment {
            dir: dir.to_path_buf(),
            staged_base,
            rows: end - staged_base,
            bytes,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written_or_not_at_all() {
        let attempts = [
            PlannedAttempt {
                writer: 0,
                attempt: -5,
                rows: 7,
                bytes: 900,
            },
            PlannedAttempt {
                writer: 3,
                attempt: i64::MAX,
                rows: 1,
                bytes: 70,
            },
        ];
        for holders in [vec![], vec![3, 1]] {
            let text = render(&attempts, &holders);
            let attempts = attempts.to_vec();
            assert_eq!(parse(&text), Some(Plan { attempts, holders }));
        }
        assert_eq!(parse(&render(&[], &[])), Some(Plan::default()));
        let old = parse("0\n1\n3 4 5 6\n").expect("the format of an earlier build");
        assert_eq!((old.attempts.len(), old.holders), (1, vec![]));
        for wrong in [
            "",
            "2\n\n0\n",
            "1\n0\n",
            "1\nx\n0\n",
            "0\n2\n0 0 1 1\n",
            "0\n1\n0 0 1\n",
            "0\n1\n0 0 1 1 1\n",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
