//! Check of segments after a crash.

use super::epochs::Epochs;
use super::report::{OpenState, RecoveryReport};
use super::since_stop;
use super::walk::Walk;
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::LOG;
use crate::files;
use crate::segment::Segments;
use std::sync::Arc;

/// Check the segments that neither the marker nor the recovery point covers. `changed` is the offset from which the
/// files differ from the marker.
pub(super) fn check(
    mut segments: Segments,
    config: &LogConfig,
    state: &OpenState,
    changed: Option<i64>,
    epochs: &mut Epochs,
    report: &mut RecoveryReport,
) -> Result<Segments, StorageError> {
    let checked = state.recovery_point.unwrap_or(0);
    let mut recovery_point = checked.min(changed.unwrap_or(i64::MAX));
    if changed.is_none() {
        recovery_point = since_stop::whole_up_to(&segments, checked, config)?;
    }
    let last = segments.len() - 1;
    let first = segments
        .partition_point(|segment| segment.base_offset <= recovery_point)
        .saturating_sub(1);
    let mut expected = None;
    for at in first..=last {
        let segment = Arc::clone(&segments[at]);
        let size = segment.size();
        let later_data = segments[at + 1..].iter().any(|later| later.size() > 0);
        let next_base = segments.get(at + 1).map(|next| next.base_offset);
        let truncated = report.truncated_bytes;
        let mut walk = Walk {
            segment: &segment,
            config,
            epochs: &mut *epochs,
            report: &mut *report,
            expected,
            durable: if later_data {
                i64::MAX
            } else {
                checked.max(state.clean.as_ref().map_or(0, |clean| clean.log_end))
            },
        };
        // A truncated file may still end with a complete batch, but its index then reaches beyond the file. (Compaction
        // leaves gaps, so gaps are no evidence.)
        let shortened = changed.is_none()
            && next_base.is_some_and(|next| next <= checked)
            && !config.cleanup_policy.compact
            && size > 0
            && !segment.ends_whole()?;
        let end = walk.run(recovery_point, size, later_data, next_base)?;
        if let Some(next) = next_base.filter(|&next| shortened && end < next) {
            report.lost.push((end, next - 1));
        }
        expected = Some(end);
        let before = state
            .clean
            .as_ref()
            .and_then(|clean| clean.known(segment.base_offset));
        if let Some((stamp, end_before)) = before {
            if end < end_before && (size < stamp.size || report.truncated_bytes > truncated) {
                report.lost.push((end, end_before - 1));
            }
        } else if let Some(next) = next_base
            && size == 0
            && later_data
            && !config.cleanup_policy.compact
        {
            report.lost.push((segment.base_offset, next - 1));
        }
    }
    // An empty segment between others has lost its bytes, or compaction emptied it.
    let active = segments[last].base_offset;
    for empty in segments.iter().filter(|segment| segment.size() == 0) {
        if empty.base_offset != active {
            files::remove(&empty.path(LOG))?;
        }
    }
    segments.retain(|segment| segment.size() > 0 || segment.base_offset == active);
    // A segment must not have offsets of a later segment.
    for pair in segments.windows(2) {
        since_stop::reach_to(&pair[0], pair[1].base_offset);
    }
    Ok(segments)
}
