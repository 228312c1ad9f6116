//! From what was read to the reply: head bytes, file slices, and what the session remembers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_response::FetchResponseWriter;
use rustix::io::Errno;

use super::super::partitions::endpoints;
use super::plan::Source;
use super::{Outcome, PendingFetch, State};
use crate::close::CloseReason;
use crate::cold_reads::is_resident;
use crate::fetch_sessions::{FetchTarget, TopicKey};
use crate::limits::{COPIED_BYTES_MAX, SENDFILE_BYTES_MIN, SENDFILE_PIECE_BYTES_MIN};
use crate::metrics::ThreadMetrics;
use crate::os;
use crate::outgoing::{FileSlice, Outgoing};
use crate::reply::ReplyFrame;
use crate::shared::{Shared, ThreadState};

/// Whether the reply could be written.
enum Written {
    /// It is in the output.
    Whole,
    /// Records must come from the disk first; nothing was written.
    Cold,
}

impl PendingFetch {
    /// Writes the reply, unless slices must come from the disk first. `warm`: they did.
    pub(super) fn finish(
        &mut self,
        shared: &Shared,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        mut outcomes: Vec<Outcome>,
        warm: bool,
        outgoing: &mut Outgoing,
    ) -> Poll<Result<(), CloseReason>> {
        if !warm {
            self.note_in_session(&mut outcomes);
        }
        let send_failed = CloseReason::SendFailed;
        let mut written = Written::Cold;
        if warm || sent_slices(&outcomes).all(is_resident) {
            written = self
                .write(shared, thread, &outcomes, warm, outgoing)
                .map_err(send_failed)?;
        }
        if let Written::Cold = written {
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
            self.write(shared, thread, &outcomes, true, outgoing)
                .map_err(send_failed)?;
        }
        core::mem::replace(&mut self.source, Source::Request(Vec::new())).release(thread);
        Poll::Ready(Ok(()))
    }

    /// `wait`: small slices are read even if that waits for the disk.
    fn write(
        &self,
        shared: &Shared,
        thread: &mut ThreadState,
        outcomes: &[Outcome],
        wait: bool,
        outgoing: &mut Outgoing,
    ) -> io::Result<Written> {
        let as_files: usize = sent_slices(outcomes).map(|slice| slice.bytes).sum();
        if as_files == 0 {
            let out = outgoing.tail(&mut thread.pool);
            let start = out.len();
            let written = self.write_to(
                shared,
                &thread.metrics,
                outcomes,
                wait,
                0,
                out,
                &mut VecDeque::new(),
            );
            if !matches!(written, Ok(Written::Whole)) {
                out.truncate(start);
            }
            return written;
        }
        let mut bytes = thread.pool.take();
        let mut cuts = VecDeque::new();
        let written = self.write_to(
            shared,
            &thread.metrics,
            outcomes,
            wait,
            as_files,
            &mut bytes,
            &mut cuts,
        )?;
        match written {
            Written::Whole => outgoing.push(bytes, cuts),
            Written::Cold => thread.pool.give(bytes),
        }
        Ok(written)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call, with its two ways of output"
    )]
    fn write_to(
        &self,
        shared: &Shared,
        metrics: &ThreadMetrics,
        outcomes: &[Outcome],
        wait: bool,
        as_files: usize,
        bytes: &mut Vec<u8>,
        cuts: &mut VecDeque<(usize, FileSlice)>,
    ) -> io::Result<Written> {
        let writer = FetchResponseWriter::new(self.version);
        let start = bytes.len();
        let frame = ReplyFrame::begin(bytes, self.correlation_id, self.flexible);
        let sizes = runs_of_one_topic(&self.source, outcomes);
        writer.start(bytes, 0, 0, self.session_id, sizes.len());
        let mut rest = outcomes;
        let mut way = Way::default();
        for size in sizes {
            let (run, after) = rest.split_at(size);
            rest = after;
            let topic = &self.source.target(run[0].place).topic;
            writer.topic(bytes, topic.name(), topic.id(), size);
            for outcome in run {
                let length = outcome.slice.as_ref().map_or(0, |slice| slice.bytes);
                writer.partition(bytes, &outcome.head, Some(length));
                match &outcome.slice {
                    Some(slice) if way.is_sent(slice) => {
                        cuts.push_back((bytes.len() - start, slice.clone()))
                    }
                    Some(slice) if !append(slice, wait, bytes)? => return Ok(Written::Cold),
                    _ => {}
                }
                writer.end_partition(bytes, &outcome.head);
            }
            writer.end_topic(bytes);
        }
        let leaders: Vec<i32> = outcomes
            .iter()
            .filter_map(|outcome| Some(outcome.head.current_leader?.leader_id))
            .collect();
        if leaders.is_empty() {
            writer.end(bytes, &[]);
        } else {
            let view = shared.metadata.load();
            writer.end(bytes, &endpoints(&view, &self.listener, &leaders));
        }
        frame.end_with(bytes, as_files);
        for outcome in outcomes {
            metrics.error(outcome.head.error_code);
            metrics
                .fetched_bytes
                .add(outcome.slice.as_ref().map_or(0, |slice| slice.bytes as u64));
        }
        Ok(Written::Whole)
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

/// Which slices of a reply are sent from their file, asked in the order of the reply.
#[derive(Default)]
struct Way {
    copied: usize,
}

impl Way {
    fn is_sent(&mut self, slice: &FileSlice) -> bool {
        if slice.bytes < SENDFILE_PIECE_BYTES_MIN {
            return false;
        }
        if slice.bytes >= SENDFILE_BYTES_MIN || self.copied + slice.bytes > COPIED_BYTES_MAX {
            return true;
        }
        self.copied += slice.bytes;
        false
    }
}

/// The slices that are sent from their file.
fn sent_slices(outcomes: &[Outcome]) -> impl Iterator<Item = &FileSlice> {
    let mut way = Way::default();
    outcomes
        .iter()
        .filter_map(|outcome| outcome.slice.as_ref())
        .filter(move |slice| way.is_sent(slice))
}

/// The response groups partitions by topic: the lengths of the runs.
fn runs_of_one_topic(source: &Source, outcomes: &[Outcome]) -> Vec<usize> {
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
    sizes
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

/// Appends a slice. False: it is not in the page cache, and this should not `wait`.
fn append(slice: &FileSlice, wait: bool, out: &mut Vec<u8>) -> io::Result<bool> {
    let start = out.len();
    out.resize(start + slice.bytes, 0);
    let mut done = 0;
    while done < slice.bytes {
        let position = slice.position + done as u64;
        let rest = &mut out[start + done..];
        let read = if wait {
            rustix::io::pread(slice.file.as_fd(), rest, position)
        } else {
            os::read_resident(slice.file.as_fd(), rest, position)
        };
        match read {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if !wait => return Ok(false),
            // A file system that cannot tell: read it the ordinary way.
            Err(Errno::OPNOTSUPP) if !wait => {
                out.truncate(start);
                return append(slice, true, out);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
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
