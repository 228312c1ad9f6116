//! Staged records on disk, beside the logs, and the crash-safe linking of their files into a log.
//!
//! ```text
//! {log.dir}/ingest/{topic id in hex}/{ingest}/p{partition}/{writer}-{attempt}/00000000000000000000.log …
//!                                                         /plan-{n}  committed attempts, in order
//!                                                         /intent    their offsets in the log
//! ```
//! An attempt's records for a partition are a log that begins at offset 0 and rolls, indexes and recovers like any
//! other. `plan` is durable before the commit is decided. `intent` is durable before the first file is linked into the
//! log. If a crash leaves no intent, nothing was attached. If it leaves an intent that is not done, the start completes
//! it before it opens the partition's log ([`replay()`]). This is possible because no other append can have taken its
//! offsets.

use crate::file_names::{self, INGEST};
use pybroker_model::{TopicId, TopicIdPartition};
use std::path::{Path, PathBuf};

pub(crate) mod content;
pub(crate) mod intent;
pub(crate) mod links;
pub(crate) mod patch;
pub(crate) mod plan;
mod replay;

pub use plan::PlannedAttempt;
pub(crate) use plan::StagedSegment;
pub(crate) use replay::{replay, waiting};

const PLAN: &str = "plan";
const INTENT: &str = "intent";

/// The directory of one partition of an ingest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedPartition {
    path: PathBuf,
    id: TopicIdPartition,
    plan: u32,
}

impl StagedPartition {
    /// Return the place in the log directory at `log_dir`; `ingest` must be safe as a file name.
    pub(crate) fn new(log_dir: &Path, id: TopicIdPartition, ingest: &str) -> Self {
        let path = of_topic(log_dir, id.topic_id)
            .join(ingest)
            .join(format!("p{}", id.partition));
        Self { path, id, plan: 0 }
    }

    /// Return the same place with plan number `plan`. Each prepare of a commit has its own number; 0 is the only plan
    /// of a broker without peers.
    #[must_use]
    pub fn with_plan(self, plan: u32) -> Self {
        Self { plan, ..self }
    }

    /// Return the number of the plan.
    #[must_use]
    pub const fn plan(&self) -> u32 {
        self.plan
    }

    /// Return the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Return the partition.
    #[must_use]
    pub const fn id(&self) -> TopicIdPartition {
        self.id
    }

    /// Return the ingest's directory name.
    pub(crate) fn ingest(&self) -> &str {
        // The name is valid UTF-8, because it was made from a string. It is one level above the partition.
        let name = self.path.parent().and_then(Path::file_name);
        name.and_then(std::ffi::OsStr::to_str).unwrap_or_default()
    }

    pub(crate) fn attempt(&self, writer: i32, attempt: i64) -> PathBuf {
        self.path.join(format!("{writer}-{attempt}"))
    }

    pub(crate) fn plan_path(&self) -> PathBuf {
        match self.plan {
            0 => self.path.join(PLAN),
            number => self.path.join(format!("{PLAN}-{number:08x}")),
        }
    }

    pub(crate) fn intent_path(&self) -> PathBuf {
        self.path.join(INTENT)
    }
}

/// Return the path of a topic's ingests.
pub(crate) fn of_topic(log_dir: &Path, id: TopicId) -> PathBuf {
    log_dir.join(INGEST).join(id.uuid().to_hex())
}

/// Return the path of a staged segment's file.
pub(crate) fn staged_file(segment: &StagedSegment, suffix: &str) -> PathBuf {
    file_names::of_segment(&segment.dir, segment.staged_base, suffix)
}
