//! Metrics of logs and replicas, by topic and partition.

use std::sync::Arc;

use pybroker_replica::Partition;

use super::sources::Sources;
use crate::prometheus::exposition::{Families, Kind};

/// Name, help text, and the function that returns the value; `None` if the metric does not apply to the partition.
type Row = (&'static str, &'static str, fn(&Partition) -> Option<i128>);

const ROWS: [Row; 9] = [
    (
        "kafka_log_log_size",
        "Bytes of the log (Kafka: Size).",
        |of| Some(of.size_bytes().into()),
    ),
    (
        "kafka_log_log_logstartoffset",
        "First offset of the log (Kafka: LogStartOffset).",
        |of| Some(of.log_start_offset().into()),
    ),
    (
        "kafka_log_log_logendoffset",
        "Offset of the next record (Kafka: LogEndOffset).",
        |of| Some(of.log_end_offset().into()),
    ),
    (
        "kafka_log_log_numlogsegments",
        "Segments of the log (Kafka: NumLogSegments).",
        |of| Some(of.segment_count() as i128),
    ),
    (
        "kafka_cluster_partition_replicascount",
        "Replicas of a partition led here (Kafka: ReplicasCount).",
        |of| Some(of.role().leader().ok()?.replicas.len() as i128),
    ),
    (
        "kafka_cluster_partition_insyncreplicascount",
        "In-sync replicas of a partition led here (Kafka: InSyncReplicasCount).",
        |of| Some(of.role().leader().ok()?.isr.len() as i128),
    ),
    (
        "kafka_cluster_partition_underreplicated",
        "1: led here with a replica that is not in sync (Kafka: UnderReplicated).",
        |of| {
            let role = of.role();
            let leader = role.leader().ok()?;
            Some(i128::from(leader.isr.len() < leader.replicas.len()))
        },
    ),
    (
        "kafka_cluster_partition_underminisr",
        "1: led here with fewer replicas in sync than min.insync.replicas (Kafka: UnderMinIsr).",
        |of| {
            let role = of.role();
            let leader = role.leader().ok()?;
            Some(i128::from(
                !leader.has_enough(of.config().min_insync_replicas),
            ))
        },
    ),
    (
        "kafka_cluster_partition_laststableoffsetlag",
        "Records between the last stable offset and the high watermark (Kafka: LastStableOffsetLag).",
        |of| {
            of.role().leader().ok()?;
            Some((of.high_watermark() - of.last_stable_offset()).into())
        },
    ),
];

/// Write the metrics. Return the number of partitions that the limit leaves out.
pub(super) fn write(sources: &Sources<'_>, families: &mut Families) -> usize {
    let map = sources.shared.replicas.snapshot();
    let mut partitions: Vec<&Arc<Partition>> = map.partitions().collect();
    partitions.sort_by_cached_key(|one| (Arc::clone(one.topic()), one.tip().partition));
    let max = sources.shared.settings.load().metrics.partitions_max;
    let left_out = partitions.len().saturating_sub(max);
    partitions.truncate(max);
    let indexes: Vec<String> = partitions
        .iter()
        .map(|one| one.tip().partition.to_string())
        .collect();
    for (name, help, read) in ROWS {
        families.family(name, Kind::Gauge, help);
        let mut last = None;
        for (partition, index) in partitions.iter().zip(&indexes) {
            let topic: &str = partition.topic();
            let here = (topic, partition.tip().partition);
            // If two incarnations of a name are hosted, show only one.
            if last == Some(here) {
                continue;
            }
            if let Some(value) = read(partition) {
                families.series(name, &[("topic", topic), ("partition", index)], value);
                last = Some(here);
            }
        }
    }
    left_out
}
