//! Encoding of a Fetch reply: header bytes and file slices.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use pybroker_model::TopicId;
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::hot::fetch_response::FetchResponseWriter;
use pybroker_protocol::{ApiKey, ErrorCode};

use super::parameters::{FetchParameters, Source};
use super::read::Outcome;
use crate::api::topic_lookup::endpoints;
use crate::blocking::cold_reads::copy;
use crate::fetch_sessions::TopicKey;
use crate::limits::SENDFILE_BYTES_MIN;
use crate::net::outgoing::{FileSlice, Outgoing};
use crate::net::reply::{ReplyFrame, ReplyHeader};
use crate::shared::{ServerState, ThreadState};

/// Result of writing a reply.
pub(super) enum WriteOutcome {
    /// The reply is in the output.
    Whole,
    /// Records must be read from disk first; nothing was written.
    Cold,
}

/// Write the reply to the connection's output. With `wait`, small slices are read even if that blocks on the disk.
pub(super) fn write(
    parameters: &FetchParameters,
    source: &Source,
    shared: &ServerState,
    thread: &mut ThreadState,
    outcomes: &[Outcome],
    wait: bool,
    outgoing: &mut Outgoing,
) -> io::Result<WriteOutcome> {
    let reply = Reply {
        parameters,
        source,
        shared,
        outcomes,
        wait,
        as_files: sent_slices(outcomes).map(|slice| slice.bytes).sum(),
    };
    let written = if reply.as_files == 0 {
        let out = outgoing.tail(&mut thread.pool);
        let start = out.len();
        let written = reply.write_to(out, &mut VecDeque::new());
        if !matches!(written, Ok(WriteOutcome::Whole)) {
            out.truncate(start);
        }
        written?
    } else {
        let mut bytes = thread.pool.take();
        let mut cuts = VecDeque::new();
        let written = reply.write_to(&mut bytes, &mut cuts)?;
        match written {
            WriteOutcome::Whole => outgoing.push(bytes, cuts),
            WriteOutcome::Cold => thread.pool.give(bytes),
        }
        written
    };
    if let WriteOutcome::Whole = written {
        note(parameters, source, outcomes, thread);
        let throttled = outcomes.iter().filter(|outcome| outcome.throttled);
        let bytes = throttled.filter_map(|outcome| Some(outcome.slice.as_ref()?.bytes));
        parameters.throttle.record(bytes.sum(), Instant::now());
    }
    Ok(written)
}

fn note(
    parameters: &FetchParameters,
    source: &Source,
    outcomes: &[Outcome],
    thread: &mut ThreadState,
) {
    let max = thread.settings.metrics.topics_max;
    let metrics = &thread.metrics;
    for outcome in outcomes {
        let error = outcome.head.error_code;
        metrics.error(ApiKey::Fetch.code(), error);
        let bytes = outcome.slice.as_ref().map_or(0, |slice| slice.bytes as u64);
        metrics.fetched_bytes.add(bytes);
        let target = source.target(outcome.place);
        let id = match target.topic {
            TopicKey::Id(id) => TopicId::new(id),
            TopicKey::Name(_) => target.resolved,
        };
        let of_topic = id.and_then(|id| thread.topics.of(id, max));
        for counters in of_topic.into_iter().chain([&metrics.topics]) {
            counters.fetch_requests.add(1);
            counters.failed_fetch_requests.add(u64::from(error != 0));
            if parameters.follower.is_none() {
                counters.bytes_out.add(bytes);
            }
        }
        if parameters.follower.is_some() {
            metrics.replication_bytes_out.add(bytes);
        }
    }
}

/// The parts of a reply.
struct Reply<'a> {
    parameters: &'a FetchParameters,
    source: &'a Source,
    shared: &'a ServerState,
    outcomes: &'a [Outcome],
    wait: bool,
    /// Record bytes that are sent directly from their files.
    as_files: usize,
}

impl Reply<'_> {
    fn write_to(
        &self,
        bytes: &mut Vec<u8>,
        cuts: &mut VecDeque<(usize, FileSlice)>,
    ) -> io::Result<WriteOutcome> {
        let writer = FetchResponseWriter::new(self.parameters.version);
        let start = bytes.len();
        let frame = ReplyFrame::begin(bytes, self.parameters.reply);
        let sizes = runs_of_one_topic(self.source, self.outcomes);
        writer.start(bytes, 0, 0, self.parameters.session_id, sizes.len());
        let mut rest = self.outcomes;
        for size in sizes {
            let (run, after) = rest.split_at(size);
            rest = after;
            let topic = &self.source.target(run[0].place).topic;
            writer.topic(bytes, topic.name(), topic.id(), size);
            for outcome in run {
                let length = outcome.slice.as_ref().map_or(0, |slice| slice.bytes);
                writer.partition(bytes, &outcome.head, Some(length));
                match &outcome.slice {
                    Some(slice) if is_sent(slice) => {
                        cuts.push_back((bytes.len() - start, slice.clone()))
                    }
                    Some(FileSlice {
                        file,
                        position,
                        bytes: size,
                    }) if !copy(file, *position, *size, self.wait, bytes)? => {
                        return Ok(WriteOutcome::Cold);
                    }
                    _ => {}
                }
                writer.end_partition(bytes, &outcome.head);
            }
            writer.end_topic(bytes);
        }
        self.write_end(&writer, bytes);
        frame.end_with(bytes, self.as_files);
        Ok(WriteOutcome::Whole)
    }

    /// Write the end of the response, with the addresses of the leaders that it names.
    fn write_end(&self, writer: &FetchResponseWriter, bytes: &mut Vec<u8>) {
        let leaders: Vec<i32> = self
            .outcomes
            .iter()
            .filter_map(|outcome| Some(outcome.head.current_leader?.leader_id))
            .collect();
        if leaders.is_empty() {
            writer.end(bytes, &[]);
        } else {
            let view = self.shared.metadata.load();
            writer.end(
                bytes,
                &endpoints(&view, &self.parameters.listener, &leaders),
            );
        }
    }
}

fn is_sent(slice: &FileSlice) -> bool {
    slice.bytes >= SENDFILE_BYTES_MIN
}

/// Return the slices that are sent directly from their files.
pub(super) fn sent_slices(outcomes: &[Outcome]) -> impl Iterator<Item = &FileSlice> {
    outcomes
        .iter()
        .filter_map(|outcome| outcome.slice.as_ref())
        .filter(|slice| is_sent(slice))
}

/// Return the lengths of the runs of partitions of one topic: the response groups partitions by topic.
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

/// Write a response without partitions, for a client that is throttled.
pub(super) fn write_throttled(
    parameters: &FetchParameters,
    throttle_time_ms: i32,
    thread: &mut ThreadState,
    outgoing: &mut Outgoing,
) {
    let out = outgoing.tail(&mut thread.pool);
    let frame = ReplyFrame::begin(out, parameters.reply);
    let writer = FetchResponseWriter::new(parameters.version);
    let session_id = if parameters.incremental {
        parameters.session_id
    } else {
        0
    };
    writer.start(out, throttle_time_ms, 0, session_id, 0);
    writer.end(out, &[]);
    frame.end(out);
}

/// Write a response that carries only an error. v4–6 have no field for it and get no partitions.
pub(super) fn write_error(
    reply: ReplyHeader,
    version: WireVersion,
    error: ErrorCode,
    out: &mut Vec<u8>,
) {
    let frame = ReplyFrame::begin(out, reply);
    let writer = FetchResponseWriter::new(version);
    writer.start(out, 0, error.0, 0, 0);
    writer.end(out, &[]);
    frame.end(out);
}
