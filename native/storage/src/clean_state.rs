//! State of a log's files at the last clean stop, and the check whether the files are unchanged.

use std::os::unix::fs::MetadataExt;

/// Sizes and modification time of the segment files that opening the log trusts without reading them. Offset and time
/// indexes are excluded, because readers notice a wrong index when they use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentStamp {
    pub(crate) base_offset: i64,
    /// Size of the `.log` file in bytes.
    pub(crate) size: u64,
    /// Modification time of the `.log` file.
    pub(crate) modified_ns: i64,
    /// Size of the `.txnindex` file; a shorter one would expose aborted records.
    pub(crate) aborted_bytes: u64,
}

/// Entry of one log in the clean-shutdown marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CleanState {
    /// Segments that contain records, ascending.
    pub(crate) segments: Vec<SegmentStamp>,
    pub(crate) log_end: i64,
    pub(crate) producers: usize,
}

impl CleanState {
    /// Return the base offset of the first changed segment. `found` has the segments on disk, ascending. If the last
    /// one is empty, its base offset is the log end.
    pub(crate) fn first_change(&self, found: &[SegmentStamp]) -> Option<i64> {
        let with_bytes = found.iter().filter(|segment| segment.size > 0);
        let mut there = with_bytes.copied();
        for known in &self.segments {
            match there.next() {
                Some(segment) if segment == *known => {}
                other => {
                    let other = other.map_or(i64::MAX, |segment| segment.base_offset);
                    return Some(known.base_offset.min(other));
                }
            }
        }
        if let Some(unknown) = there.next() {
            return Some(unknown.base_offset);
        }
        let last = found.last()?;
        let fits = if last.size > 0 {
            (0..=i64::from(i32::MAX)).contains(&self.log_end.wrapping_sub(last.base_offset))
        } else {
            self.log_end == last.base_offset
        };
        (!fits).then_some(last.base_offset)
    }

    /// Return the stamp of the segment at `base_offset`, and its end offset.
    pub(crate) fn known(&self, base_offset: i64) -> Option<(SegmentStamp, i64)> {
        let at = self
            .segments
            .binary_search_by_key(&base_offset, |segment| segment.base_offset)
            .ok()?;
        Some((self.segments[at], self.end_of(at)))
    }

    /// Return the offset ranges (first, last) of segments that contained records at the stop and are missing in
    /// `found`.
    pub(crate) fn missing(&self, found: &[SegmentStamp]) -> Vec<(i64, i64)> {
        let gone = self.segments.iter().enumerate().filter(|(_, known)| {
            found
                .binary_search_by_key(&known.base_offset, |segment| segment.base_offset)
                .is_err()
        });
        gone.map(|(at, known)| (known.base_offset, self.end_of(at) - 1))
            .collect()
    }

    fn end_of(&self, at: usize) -> i64 {
        self.segments
            .get(at + 1)
            .map_or(self.log_end, |next| next.base_offset)
    }
}

/// Return a file's modification time in nanoseconds.
pub(crate) fn modified_ns(metadata: &std::fs::Metadata) -> i64 {
    metadata
        .mtime()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(metadata.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(base_offset: i64, size: u64) -> SegmentStamp {
        SegmentStamp {
            base_offset,
            size,
            modified_ns: 1,
            aborted_bytes: 0,
        }
    }

    #[test]
    fn every_change_is_found_at_the_first_segment_it_concerns() {
        let clean = CleanState {
            segments: vec![stamp(0, 10), stamp(5, 20), stamp(9, 5)],
            log_end: 12,
            producers: 0,
        };
        let changed = |found: &[SegmentStamp]| clean.first_change(found);
        let same = [stamp(0, 10), stamp(5, 20), stamp(9, 5)];
        assert_eq!(changed(&same), None);
        assert_eq!(changed(&[same[0], same[1], same[2], stamp(12, 0)]), None);
        assert_eq!(
            changed(&[same[0], same[1], same[2], stamp(11, 0)]),
            Some(11)
        );
        assert_eq!(changed(&[same[0], stamp(5, 19), same[2]]), Some(5));
        assert_eq!(changed(&[stamp(0, 0), same[1], same[2]]), Some(0));
        assert_eq!(changed(&[same[0], same[2]]), Some(5));
        assert_eq!(changed(&[same[0], same[1]]), Some(9));
        assert_eq!(changed(&[same[0], stamp(3, 1), same[1], same[2]]), Some(3));
        assert_eq!(
            changed(&[same[0], same[1], same[2], stamp(12, 7)]),
            Some(12)
        );
        for field in 0..2 {
            let mut other = same;
            match field {
                0 => other[0].modified_ns = 2,
                _ => other[0].aborted_bytes = 34,
            }
            assert_eq!(changed(&other), Some(0));
        }
        assert_eq!(clean.missing(&[same[0], same[2]]), [(5, 8)]);
        assert_eq!(clean.missing(&[same[0]]), [(5, 8), (9, 11)]);
        assert_eq!(clean.known(9), Some((same[2], 12)));
        assert_eq!(clean.known(6), None);
    }
}
