//! Records that are staged beside the logs, as they lie on disk, and the way in which their files become segments of a
//! log, whatever crash comes between.
//!
//! ```text
//! {log.dir}/ingest/{topic id in hex}/{ingest}/p{partition}/{writer}-{attempt}/00000000000000000000.log …
//!                                                         /plan-{n}  which attempts count, in order
//!                                                         /intent    where the log takes them
//! ```
//! What one attempt of a writer stages for a partition is a log of its own that begins at offset 0: it rolls, indexes
//! and recovers as any other. `plan` is durable before the metadata decides; `intent` is durable before the first file
//! is linked into the log. So after a crash: no intent, nothing was attached; an intent that is not done is finished
//! before the partition's log is opened ([`replay()`]), because nobody else can have taken its offsets.

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

/// The place of one partition of one ingest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedPartition {
    path: PathBuf,
    id: TopicIdPartition,
    plan: u32,
}

impl StagedPartition {
    /// In the log directory at `log_dir`; `ingest` is a name of the caller's, safe as a file name.
    pub(crate) fn new(log_dir: &Path, id: TopicIdPartition, ingest: &str) -> Self {
        let path = of_topic(log_dir, id.topic_id)
            .join(ingest)
            .join(format!("p{}", id.partition));
        Self { path, id, plan: 0 }
    }

    /// The same with the plan of that number: commits that are prepared one after another have different ones. 0: the
    /// only plan of a broker that is alone.
    #[must_use]
    pub fn with_plan(self, plan: u32) -> Self {
        Self { plan, ..self }
    }

    /// The number of the plan.
    #[must_use]
    pub const fn plan(&self) -> u32 {
        self.plan
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The partition that it is for.
    #[must_use]
    pub const fn id(&self) -> TopicIdPartition {
        self.id
    }

    /// The ingest's name.
    pub(crate) fn ingest(&self) -> &str {
        // Made from a string, one level above.
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

/// Where the ingests of a topic lie.
pub(crate) fn of_topic(log_dir: &Path, id: TopicId) -> PathBuf {
    log_dir.join(INGEST).join(id.uuid().to_hex())
}

/// The file of a segment that an attempt staged.
pub(crate) fn staged_file(segment: &StagedSegment, suffix: &str) -> PathBuf {
    file_names::of_segment(&segment.dir, segment.staged_base, suffix)
}
