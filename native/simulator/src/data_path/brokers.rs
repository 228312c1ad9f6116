//! The brokers: real replicas on real files, which can be killed and can lose power.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pybroker_model::{BatchBuilder, Batches, Codec, Records, TopicId, TopicIdPartition};
use pybroker_model::{ValidBatches, decompressed_records};
use pybroker_replica::{
    AppendInfo, BrokerLogSettings, Clock, HeldFlushes, Partition, PartitionError, PartitionOrder,
    Replicas, ReplicasConfig, TopicConfig,
};
use pybroker_storage::{AppendOrigin, FlushMode, Layout, LogConfig};
use tempfile::TempDir;

use super::controller::PartitionState;
use super::history::Content;
use crate::random::Random;

/// Number of brokers; their ids are 1, 2 and 3.
pub(super) const BROKERS: usize = 3;
/// How long a flush may take before the run counts as hanging.
const FLUSH_LIMIT: Duration = Duration::from_secs(20);
/// One segment: the power cut knows what the journal has of it.
const SEGMENT_BYTES: u32 = 1 << 20;

/// The clock of the background threads, which these runs do not start.
#[derive(Debug)]
struct StoppedClock(Instant);

impl Clock for StoppedClock {
    fn now_ms(&self) -> i64 {
        1_000_000
    }

    fn now(&self) -> Instant {
        self.0
    }
}

/// A running broker.
struct Running {
    replicas: Arc<Replicas>,
    /// Appends of the leader that are not flushed yet.
    held: HeldFlushes,
}

/// A broker and its disk.
pub(super) struct Broker {
    pub(super) id: i32,
    disk: TempDir,
    tip: TopicIdPartition,
    running: Option<Running>,
    /// Epoch of its registration.
    pub(super) broker_epoch: i64,
    /// Version of the last state that it got from the controller.
    pub(super) seen: i32,
    /// The active segment and its length when the journal last had nothing of it: after a start or a truncation.
    synced: (PathBuf, u64),
    /// Bytes of records in the journal, and length of the active segment, after the last flush.
    flushed: (u64, u64),
}

impl Broker {
    pub(super) fn new(id: i32, topic_id: TopicId) -> Self {
        let memory = Path::new("/dev/shm");
        let disk = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Self {
            id,
            disk: disk.expect("a temporary directory"),
            tip: TopicIdPartition {
                topic_id,
                partition: 0,
            },
            running: None,
            broker_epoch: -1,
            seen: -1,
            synced: (PathBuf::new(), 0),
            flushed: (0, 0),
        }
    }

    pub(super) fn start(&mut self, now: Instant) {
        let config = ReplicasConfig {
            broker_id: self.id,
            cluster_id: "simulated".into(),
            log_dirs: vec![self.disk.path().to_path_buf()],
            layout: Layout::TopicName,
            delete_delay_ms: 0,
            threads_per_dir: 1,
            log_settings: BrokerLogSettings::default(),
            clock: Arc::new(StoppedClock(now)),
            report: Arc::new(|_| ()),
            inform: Arc::new(|_| ()),
            on_all_failed: Arc::new(|line| panic!("{line}")),
        };
        let (replicas, _) = Replicas::start(config).expect("its directory opens");
        self.running = Some(Running {
            replicas: Arc::new(replicas),
            held: HeldFlushes::default(),
        });
        self.seen = -1;
        self.note_synced();
        self.flushed = (0, self.synced.1);
    }

    /// Note that the active segment is on disk, and that the journal may have nothing of it.
    pub(super) fn note_synced(&mut self) {
        if let Some(segment) = self.segments().pop() {
            self.synced = (segment, self.segment_bytes());
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Kill the process: what it has written stays.
    pub(super) fn kill(&mut self) {
        self.flush();
        self.running = None;
    }

    /// Cut the power. Unflushed records are lost, and so is any part of the active segment that is only in the journal;
    /// some of the lost bytes may be garbage. `flushed_too`: lose flushed records as well.
    pub(super) fn cut_power(&mut self, random: &mut Random, flushed_too: bool) {
        // Before the controller's first order the log is as the start left it, on disk.
        let flushed = self.partition().map_or(i64::MAX, |partition| {
            partition.log_end_offset() - partition.unflushed_records()
        });
        if let Some(running) = self.running.take() {
            // Dropping the held flushes would start them: the records must not reach the journal.
            std::mem::forget(running.held);
        }
        let Some(segment) = self.segments().pop() else {
            return;
        };
        if flushed_too {
            for file in [0, 1] {
                drop(fs::remove_file(
                    self.disk.path().join(format!("journal.{file}")),
                ));
            }
        }
        let bytes = fs::read(&segment).expect("reads its segment");
        let mut flushed_end = 0;
        for (header, batch) in Batches::new(&bytes).map_while(Result::ok) {
            if header.next_offset() <= flushed {
                flushed_end += batch.len() as u64;
            }
        }
        let synced = if self.synced.0 == segment {
            self.synced.1
        } else {
            0
        };
        let kept = random.between(synced.min(flushed_end), flushed_end);
        let file = fs::OpenOptions::new().write(true).open(&segment);
        let file = file.expect("opens its segment");
        file.set_len(kept).expect("truncates");
        if random.percent(30) {
            let garbage = vec![0; random.between(1, 200) as usize];
            file.write_all_at(&garbage, kept).expect("writes");
        }
    }

    pub(super) fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.running.as_ref().map(|running| &running.replicas)
    }

    pub(super) fn partition(&self) -> Option<Arc<Partition>> {
        self.replicas()?.partition(self.tip)
    }

    /// Give it the controller's state.
    pub(super) fn tell(
        &mut self,
        state: &PartitionState,
        now_ms: i64,
    ) -> Result<(), PartitionError> {
        let Some(replicas) = self.replicas() else {
            return Ok(());
        };
        let log = LogConfig {
            flush_mode: FlushMode::Commit,
            segment_bytes: SEGMENT_BYTES,
            ..LogConfig::default()
        };
        let order = PartitionOrder {
            tip: self.tip,
            topic: "t".into(),
            leader: state.leader,
            leader_epoch: state.leader_epoch,
            isr: state.isr.as_slice().into(),
            version: state.version,
            replicas: (1..=BROKERS as i32).collect(),
            is_new: true,
            start_offset: 0,
            config: Arc::new(TopicConfig {
                log: Arc::new(log),
                min_insync_replicas: 2,
                ..TopicConfig::default()
            }),
        };
        let done = replicas
            .apply(std::slice::from_ref(&order), now_ms)
            .remove(0);
        self.seen = self.seen.max(state.version);
        // A new leader may have synced its segment.
        if self
            .partition()
            .is_some_and(|it| it.unflushed_records() == 0)
        {
            self.note_synced();
        }
        done
    }

    /// Append one record as leader; the flush begins with [`Broker::flush`].
    pub(super) fn append(&mut self, value: &str, acks: i16) -> Option<AppendInfo> {
        let partition = self.partition()?;
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(1_000, None, Some(value.as_bytes()));
        let batch = ValidBatches::checked_owned(builder.build().expect("builds"));
        let held = &mut self.running.as_mut()?.held;
        let appended = partition.append_with(
            AppendOrigin::Client,
            -1,
            batch.expect("valid"),
            acks,
            1_000,
            held,
        );
        appended.ok()
    }

    /// Flush everything that it has appended.
    pub(super) fn flush(&mut self) {
        let Some(partition) = self.partition() else {
            return;
        };
        // After a recovery the log has records that no append has asked to flush.
        partition.request_flush();
        if let Some(running) = &mut self.running {
            running.held.begin();
        }
        wait(|| partition.unflushed_records() == 0 && partition.running_sync().is_none());
        // The journal has what was flushed, unless some of it was synced in the segment instead.
        let flushed = (self.journal_bytes(), self.segment_bytes());
        if flushed.0.checked_sub(self.flushed.0) != flushed.1.checked_sub(self.flushed.1) {
            self.note_synced();
        }
        self.flushed = flushed;
    }

    fn journal_bytes(&self) -> u64 {
        self.replicas()
            .map_or(0, |replicas| replicas.journal_figures().bytes)
    }

    fn segment_bytes(&self) -> u64 {
        let segment = self.segments().pop();
        segment.map_or(0, |path| fs::metadata(path).map_or(0, |it| it.len()))
    }

    /// The records of its log, from the files.
    pub(super) fn content(&self) -> Content {
        let mut content = Content::new();
        for segment in self.segments() {
            let bytes = fs::read(&segment).expect("reads its segment");
            for (header, batch) in Batches::new(&bytes).map_while(Result::ok) {
                let mut scratch = Vec::new();
                let plain = decompressed_records(&header, batch, &mut scratch);
                let records = Records::new(&header, plain.expect("decompresses"));
                for record in records.clone() {
                    let record = record.expect("a record");
                    let value = String::from_utf8_lossy(record.value.unwrap_or_default());
                    content.insert(records.offset(&record), value.into_owned());
                }
            }
        }
        content
    }

    /// Its segment files in order.
    fn segments(&self) -> Vec<PathBuf> {
        let Ok(files) = fs::read_dir(self.disk.path().join("t-0")) else {
            return Vec::new();
        };
        let paths = files.map(|entry| entry.expect("lists").path());
        let mut segments: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        segments.sort();
        segments
    }
}

fn wait(mut done: impl FnMut() -> bool) {
    let mut left = FLUSH_LIMIT;
    let pause = Duration::from_micros(50);
    while !done() {
        left = left.checked_sub(pause).expect("the flush ends");
        std::thread::sleep(pause);
    }
}
