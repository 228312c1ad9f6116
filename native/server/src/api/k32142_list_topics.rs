//! ListTopics (key 32142), versions 0 and 1: KIP-142's request, for which Kafka never gave out a key.
//!
//! v0 is the document's own: every topic that the asker may describe, with its name and whether it is internal,
//! nothing else. v1 adds topic ids, a prefix and pages: `after` is the `next` of the page before, `limit` a wish that
//! is capped at [`PAGE_MAX`]. Topics that the asker may not describe are left out without a word, and a page is
//! filled with others instead, so that its size tells nothing about them. Any broker answers, from its view.

use pybroker_protocol::hot::list_topics::{
    ListTopicsRequest, ListTopicsResponse, ListedTopic, PAGES,
};

use super::Call;
use crate::access::Access;
use crate::close::CloseReason;
use crate::metadata_view::{MetadataView, TopicMetadata};
use crate::reply::ReplyFrame;

/// Topics in one page at most, whatever the request's limit says: about half a megabyte.
const PAGE_MAX: usize = 10_000;

/// Answers the request.
pub(crate) fn run(call: &Call<'_>, body: &[u8], out: &mut Vec<u8>) -> Result<(), CloseReason> {
    let request =
        ListTopicsRequest::decode(body, call.version).map_err(|error| call.bad_request(error))?;
    let view = call.shared.metadata.load();
    let access = call.access();
    let size = match usize::try_from(request.limit) {
        _ if call.version < PAGES => usize::MAX,
        Ok(limit) if limit > 0 => limit.min(PAGE_MAX),
        _ => PAGE_MAX,
    };
    let (topics, next) = page(&view, &request, size, &access);
    let frame = ReplyFrame::begin(out, call.reply);
    ListTopicsResponse {
        error_code: 0,
        topics,
        next,
        throttle_time_ms: call.throttle_time_ms,
    }
    .encode(call.version, out);
    frame.end(out);
    Ok(())
}

/// At most `size` topics, and the last one's name if there are more of them.
fn page<'v>(
    view: &'v MetadataView,
    request: &ListTopicsRequest<'_>,
    size: usize,
    access: &Access<'_>,
) -> (Vec<ListedTopic<'v>>, Option<&'v str>) {
    let shown = |topic: &&TopicMetadata| {
        (request.list_internal || !topic.internal) && access.lists(&topic.name)
    };
    let mut found = view
        .topics_between(request.prefix, request.after)
        .filter(shown)
        .map(|topic| ListedTopic {
            name: &topic.name,
            topic_id: topic.id.uuid(),
            internal: topic.internal,
        });
    let mut topics = Vec::with_capacity(size.min(view.topics().len()));
    topics.extend(found.by_ref().take(size));
    // A page that is full and the last has no cursor: no empty one follows.
    let more = topics.len() == size && found.next().is_some();
    let next = topics.last().filter(|_| more).map(|last| last.name);
    (topics, next)
}
