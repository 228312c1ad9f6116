"""The topic of a write. The options `topic` and `topicId` select it; it is created if requested."""

from __future__ import annotations

import logging
import time

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark.cluster_requests import AWAY, BrokerRefusalError, SparkCluster, SparkTopic
from pybroker.spark.source_errors import NoSuchTopicIdError, TopicChangedError, UnknownTopicError
from pybroker.spark.source_options import NewTopicOptions, WriteOptions

CREATE_TOPICS, CONTROLLER = 19, -1
DEFAULTS_SINCE = 4
"""First version of CreateTopics that accepts the broker's defaults (−1)."""
TIMEOUT_MS = 30_000
KNOWN_WITHIN_S = 30.0
PAUSE_S = 0.1
log = logging.getLogger(__name__)


def pinned_topic(cluster: SparkCluster, options: WriteOptions) -> SparkTopic:
    """Return the topic of the options topic and topicId. With createTopic, create it if it is missing.

    Raises UnknownTopicError if it does not exist, NoSuchTopicIdError and TopicChangedError if the id does not match.
    """
    if options.topic is None:
        assert options.topic_id is not None, "checked before"
        found = cluster.topics_with_ids([options.topic_id]).get(options.topic_id)
        if found is None:
            raise NoSuchTopicIdError([options.topic_id], cluster.id)
        return found
    found = cluster.topics_named([options.topic]).get(options.topic)
    if found is None:
        if options.topic_id is not None:
            raise NoSuchTopicIdError([options.topic_id], cluster.id)
        if options.new_topic is None:
            raise UnknownTopicError([options.topic], cluster.id, ", or use the option createTopic=true")
        return _created(cluster, options.topic, options.new_topic)
    if options.topic_id not in (None, found.id):
        raise TopicChangedError(
            f"topic {options.topic} has id {found.id} instead of {options.topic_id}: it was re-created"
        )
    return found


def check_new_topic(cluster: SparkCluster, name: str, new: NewTopicOptions) -> None:
    """Check whether a topic may be created, without creating it. Raises BrokerRefusalError."""
    _create(cluster, name, new, validate_only=True)


def _create(cluster: SparkCluster, name: str, new: NewTopicOptions, *, validate_only: bool) -> None:
    topic = m.CreateTopicsRequest_CreatableTopic(
        name=name, num_partitions=new.partitions, replication_factor=new.replication_factor
    )
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only)

    def step() -> None:
        (answer,) = cluster.send(request, CREATE_TOPICS, DEFAULTS_SINCE, 7, CONTROLLER).topics
        if answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return
        if answer.error_code:
            raise BrokerRefusalError(answer.error_code, f"createTopic: topic {name}", answer.error_message)
        if not validate_only:
            log.warning("created topic %s (createTopic)", name)

    cluster.patiently(step, AWAY | {ErrorCode.NOT_CONTROLLER}, cluster.patience_s)


def _created(cluster: SparkCluster, name: str, new: NewTopicOptions) -> SparkTopic:
    """Create a topic. If another client has created it in the meantime, use it. Raises BrokerRefusalError,
    UnknownTopicError."""
    _create(cluster, name, new, validate_only=False)
    # A new topic reaches the brokers shortly after the controller has created it.
    give_up = time.monotonic() + KNOWN_WITHIN_S
    while (found := cluster.topics_named([name]).get(name)) is None:
        if time.monotonic() > give_up:
            raise UnknownTopicError([name], cluster.id)
        time.sleep(PAUSE_S)
    return found
