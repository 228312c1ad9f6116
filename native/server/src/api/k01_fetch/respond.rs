//! From what was read to the reply: head bytes, file slices, and what the session remembers.

use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_response::FetchResponseWriter;
use rustix::io::{Errno, ReadWriteFlags};

use super::super::partitions::endpoints;
use super::plan::Source;
use super::{Outcome, PendingFetch, State};
use crate::cold_reads::{FileSlice, is_resident};
use crate::fetch_sessions::{FetchTarget, TopicKey};
use crate::limits::SENDFILE_BYTES_MIN;
use crate::outgoing::Outgoing;
use crate::reply::ReplyFrame;
use crate::shared::{Shared, ThreadState};

impl PendingFetch {
    /// Writes the reply, unless slices must come from the disk first. `warm`: they did.
    pub(super) fn finish(
        &mut self,
        shared: &Shared,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        outcomes: Vec<Outcome>,
        warm: bool,
        outgoing: &mut Outgoing,
    ) -> Poll<()> {
        let mut small = Vec::new();
        if !warm {
            let cold = !outcomes
                .iter()
                .filter_map(|outcome| outcome.slice.as_ref())
                .all(|slice| {
                    if slice.bytes >= SENDFILE_BYTES_MIN {
                        is_resident(slice)
                    } else {
                        append_resident(slice, &mut small)
                    }
                });
            if cold {
                thread.metrics.cold_reads.add(1);
                let slices = outcomes
                    .iter()
                    .filter_map(|outcome| outcome.slice.clone())
                    .collect();
                if let Some(read) = shared.cold_reads.read(slices, context.waker()) {
                    self.state = State::Warming(read, outcomes);
                    return Poll::Pending;
                }
                // No room in the queue: this thread waits for the disk itself.
                small.clear();
            }
            if !cold {
                self.write(shared, thread, outcomes, &mut &small[..], outgoing);
                return Poll::Ready(());
            }
        }
        for slice in outcomes.iter().filter_map(|outcome| outcome.slice.as_ref()) {
            if slice.bytes < SENDFILE_BYTES_MIN {
                append(slice, &mut small);
            }
        }
        self.write(shared, thread, outcomes, &mut &small[..], outgoing);
        Poll::Ready(())
    }

    /// `small` holds the bytes of all slices below the sendfile threshold, in order.
    fn write(
        &mut self,
        shared: &Shared,
        thread: &mut ThreadState,
        mut outcomes: Vec<Outcome>,
        small: &mut &[u8],
        outgoing: &mut Outgoing,
    ) {
        self.note_in_session(&mut outcomes);
        let writer = FetchResponseWriter::new(self.version);
        let view = shared.metadata.load();
        let leaders: Vec<i32> = outcomes
            .iter()
            .filter_map(|outcome| Some(outcome.head.current_leader?.leader_id))
            .collect();
        let sent_as_file: usize = outcomes
            .iter()
            .filter_map(|outcome| Some(outcome.slice.as_ref()?.bytes))
            .filter(|bytes| *bytes >= SENDFILE_BYTES_MIN)
            .sum();

        // The length prefix must be known before the first file slice is queued, so heads and tails are written to a
        // buffer of their own first, with the places where slices come between them.
        let mut bytes = thread.pool.take();
        let mut cuts: Vec<(usize, FileSlice)> = Vec::new();
        let frame = ReplyFrame::begin(&mut bytes, self.correlation_id, self.flexible);
        let groups = Groups::of(&self.source, &outcomes);
        writer.start(&mut bytes, 0, 0, self.session_id, groups.count);
        let mut outcomes = outcomes.into_iter();
        for group in &groups.sizes {
            let mut first = true;
            for outcome in outcomes.by_ref().take(*group) {
                if core::mem::take(&mut first) {
                    let topic = &self.source.target(outcome.place).topic;
                    writer.topic(&mut bytes, topic.name(), topic.id(), *group);
                }
                thread.metrics.error(outcome.head.error_code);
                let length = outcome.slice.as_ref().map_or(0, |slice| slice.bytes);
                thread.metrics.fetched_bytes.add(length as u64);
                writer.partition(&mut bytes, &outcome.head, Some(length));
                match outcome.slice {
                    Some(slice) if slice.bytes >= SENDFILE_BYTES_MIN => {
                        cuts.push((bytes.len(), slice))
                    }
                    Some(slice) => {
                        let (here, rest) = small.split_at(slice.bytes);
                        bytes.extend_from_slice(here);
                        *small = rest;
                    }
                    None => {}
                }
                writer.end_partition(&mut bytes, &outcome.head);
            }
            writer.end_topic(&mut bytes);
        }
        let node_endpoints = if leaders.is_empty() {
            Vec::new()
        } else {
            endpoints(&view, &self.listener, &leaders)
        };
        writer.end(&mut bytes, &node_endpoints);
        frame.end_with(&mut bytes, sent_as_file);

        let mut from = 0;
        for (at, slice) in cuts {
            outgoing
                .tail(&mut thread.pool)
                .extend_from_slice(&bytes[from..at]);
            outgoing.push_file(&mut thread.pool, slice.file, slice.position, slice.bytes);
            from = at;
        }
        outgoing
            .tail(&mut thread.pool)
            .extend_from_slice(&bytes[from..]);
        thread.pool.give(bytes);
        core::mem::replace(&mut self.source, Source::Request(Vec::new())).release(thread);
    }

    /// Drops partitions without news from an incremental response and orders the session for its next fetch.
    fn note_in_session(&mut self, outcomes: &mut Vec<Outcome>) {
        let Source::Session(session) = &mut self.source else {
            return;
        };
        let gave_records: Vec<u32> = outcomes
            .iter()
            .filter(|outcome| outcome.slice.is_some())
            .map(|outcome| outcome.place)
            .collect();
        let incremental = self.incremental;
        outcomes.retain(|outcome| {
            let head = &outcome.head;
            let news = session.1.changed(
                outcome.place,
                head.error_code,
                head.high_watermark,
                head.log_start_offset,
            );
            !incremental || news || outcome.slice.is_some() || head.diverging_epoch.is_some()
        });
        session.1.rotate(&gave_records);
    }
}

/// How outcomes fall into runs of one topic each.
struct Groups {
    count: usize,
    sizes: Vec<usize>,
}

impl Groups {
    fn of(source: &Source, outcomes: &[Outcome]) -> Self {
        let mut sizes: Vec<usize> = Vec::new();
        let mut last: Option<&TopicKey> = None;
        for outcome in outcomes {
            let topic = &source.target(outcome.place).topic;
            match sizes.last_mut() {
                Some(size) if last == Some(topic) => *size += 1,
                _ => sizes.push(1),
            }
            last = Some(topic);
        }
        Groups {
            count: sizes.len(),
            sizes,
        }
    }
}

impl Source {
    /// The target at a place that an outcome came from.
    fn target(&self, place: u32) -> &FetchTarget {
        match self {
            Source::Session(session) => session.1.target(place),
            Source::Request(targets) => &targets[place as usize],
        }
    }
}

/// Appends a slice if it is in the page cache.
fn append_resident(slice: &FileSlice, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.resize(start + slice.bytes, 0);
    let mut target = [IoSliceMut::new(&mut out[start..])];
    match rustix::io::preadv2(
        slice.file.as_fd(),
        &mut target,
        slice.position,
        ReadWriteFlags::NOWAIT,
    ) {
        Ok(count) if count == slice.bytes => true,
        // A file system that cannot tell: read it the ordinary way.
        Err(Errno::OPNOTSUPP) => {
            out.truncate(start);
            append(slice, out);
            true
        }
        _ => false,
    }
}

/// Appends a slice, waiting for the disk if need be. Bytes that cannot be read stay zero: the client's CRC check
/// refuses them, and it fetches again.
fn append(slice: &FileSlice, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + slice.bytes, 0);
    let mut done = 0;
    while done < slice.bytes {
        match rustix::io::pread(
            slice.file.as_fd(),
            &mut out[start + done..],
            slice.position + done as u64,
        ) {
            Ok(0) => return,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// A response that consists of an error: v4–6 have no place for one and get no partitions.
pub(super) fn write_error(
    correlation_id: i32,
    flexible: bool,
    version: i16,
    error: ErrorCode,
    out: &mut Vec<u8>,
) {
    let frame = ReplyFrame::begin(out, correlation_id, flexible);
    let writer = FetchResponseWriter::new(version);
    writer.start(out, 0, error.0, 0, 0);
    writer.end(out, &[]);
    frame.end(out);
}
