//! How requests to one leader, and its responses, name topics: by id or by name. No I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use pybroker_model::{IdMap, TopicId};
use pybroker_protocol::hot::of_topic::TopicRef;
use pybroker_protocol::primitives::Span;

/// Topic ids. Names are used instead if the leader or this broker does not know ids (`inter.broker.protocol.version`
/// below 2.8).
#[derive(Debug)]
pub(crate) struct Names {
    /// Whether requests use ids. Otherwise they use names, and `Names` has the names of all requested topics.
    pub(crate) by_id: bool,
    names: IdMap<TopicId, Arc<str>>,
    ids: BTreeMap<Arc<str>, TopicId>,
    /// Text of the names in the current request.
    text: Vec<u8>,
}

impl Names {
    /// Create the object for ids, or for names, of which none is known yet.
    pub(crate) fn new(by_id: bool) -> Self {
        Self {
            by_id,
            names: IdMap::default(),
            ids: BTreeMap::new(),
            text: Vec::new(),
        }
    }

    /// Record the name of a requested topic. Return false if the id or the name was paired with another one before. The
    /// leader's session is then wrong for this name.
    pub(crate) fn learn(&mut self, topic_id: TopicId, name: &Arc<str>) -> bool {
        if self.by_id {
            return true;
        }
        let named = self.names.get(&topic_id);
        if named.is_some_and(|named| named == name) {
            return true;
        }
        let same = named.is_none() && self.ids.get(name).is_none_or(|id| *id == topic_id);
        if let Some(old) = self.names.insert(topic_id, Arc::clone(name)) {
            self.ids.remove(&old);
        }
        if let Some(old) = self.ids.insert(Arc::clone(name), topic_id)
            && old != topic_id
        {
            self.names.remove(&old);
        }
        same
    }

    /// Begin another request.
    pub(crate) fn begin(&mut self) {
        self.text.clear();
    }

    /// Return the text that the spans of the request refer to.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Return the span of the topic's name in the request. Empty if the request uses ids.
    pub(crate) fn span(&mut self, topic_id: TopicId) -> Span {
        let name = self.names.get(&topic_id).filter(|_| !self.by_id);
        let start = self.text.len() as u32;
        self.text
            .extend_from_slice(name.map_or(&[][..], |name| name.as_bytes()));
        Span {
            start,
            end: self.text.len() as u32,
        }
    }

    /// Return the topic as a request refers to it.
    pub(crate) fn topic(&self, topic_id: TopicId) -> TopicRef<'_> {
        if self.by_id {
            return TopicRef::Id(topic_id.uuid());
        }
        TopicRef::Name(self.names.get(&topic_id).map_or("", |name| name))
    }

    /// Return the topic of a response, if it was requested.
    pub(crate) fn id(&self, topic: TopicRef<'_>) -> Option<TopicId> {
        match topic {
            TopicRef::Id(id) | TopicRef::Both(_, id) => TopicId::new(id),
            TopicRef::Name(name) => self.ids.get(name).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pybroker_model::Uuid;

    use super::*;

    fn id(number: u128) -> TopicId {
        TopicId::new(Uuid::from_u128(number)).expect("not zero")
    }

    #[test]
    fn a_name_that_means_another_topic_is_told() {
        let (orders, other): (Arc<str>, Arc<str>) = ("orders".into(), "other".into());
        let mut names = Names::new(false);
        assert!(names.learn(id(1), &orders));
        assert!(names.learn(id(1), &orders));
        assert!(names.learn(id(2), &other));
        assert_eq!(names.topic(id(1)), TopicRef::Name("orders"));
        assert_eq!(names.id(TopicRef::Name("orders")), Some(id(1)));
        assert!(!names.learn(id(3), &orders), "created again");
        assert_eq!(names.id(TopicRef::Name("orders")), Some(id(3)));
        assert!(!names.learn(id(2), &orders), "called otherwise");
        assert_eq!(names.id(TopicRef::Name("other")), None);
        let (first, second) = (names.span(id(2)), names.span(id(2)));
        assert_eq!((first.of(names.text()), first.end), (&b"orders"[..], 6));
        assert_eq!(second.of(names.text()), b"orders");
        names.begin();
        assert!(names.text().is_empty());
    }

    #[test]
    fn where_ids_are_known_names_are_not_on_the_wire() {
        let mut names = Names::new(true);
        assert!(names.learn(id(1), &"orders".into()));
        assert_eq!(names.topic(id(1)), TopicRef::Id(id(1).uuid()));
        assert_eq!(names.id(TopicRef::Id(id(9).uuid())), Some(id(9)));
        assert_eq!(names.span(id(1)), Span::default());
    }
}
