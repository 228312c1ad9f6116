//! ListTopics (key 32142), versions 0 and 1: the request of KIP-142, to which Kafka never assigned a key.
//!
//! v0 follows the KIP: every topic that the client may describe, with its name and whether it is internal. v1 adds
//! topic ids, a prefix and pages: `after` is the `next` of the previous page, and [`PAGE_MAX`] caps `limit`. The
//! response silently omits topics that the client may not describe and fills the page with others, so that its size
//! reveals nothing about them. Any broker answers from its metadata.

use pybroker_protocol::hot::list_topics::{
    ListTopicsRequest, ListTopicsResponse, ListedTopic, PAGES,
};

use super::Call;
use crate::api::topic_access::Access;
use crate::clients::close_reason::CloseReason;
use crate::metadata_view::{MetadataView, TopicMetadata};
use crate::net::reply::ReplyFrame;

/// Maximum number of topics in a page, even if the request's limit is higher: about half a megabyte.
const PAGE_MAX: usize = 10_000;

/// Answer the request.
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

/// Return at most `size` topics, and the name of the last one if there are more.
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
    // A full page that contains the last topic has no cursor, so no empty page follows.
    let more = topics.len() == size && found.next().is_some();
    let next = topics.last().filter(|_| more).map(|last| last.name);
    (topics, next)
}
