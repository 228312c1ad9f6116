"""Errors of the data source; their texts tell the user what to do."""

from __future__ import annotations

from collections.abc import Sequence


class SparkSourceError(Exception):
    """Base of the data source's errors."""


class OptionError(SparkSourceError):
    """An option that is unknown, missing or has an unusable value."""


class TokenError(SparkSourceError):
    """An identity provider returned no token (`kafka.sasl.oauthbearer.token.endpoint.url`)."""


class UnknownTopicError(SparkSourceError):
    """No topic has the name, and no checkpoint refers to an earlier topic with the name."""

    def __init__(self, names: Sequence[str], cluster_id: str, way_out: str = "") -> None:
        create = f"create it first, for example with `pybroker topics create {names[0]} --partitions 4`"
        super().__init__(f"there is no topic {', '.join(names)} in cluster {cluster_id}: {create}{way_out}")


class TopicChangedError(SparkSourceError):
    """A checkpoint or a job belongs to a topic that was deleted, re-created or truncated, or to another cluster."""


class NoSuchTopicIdError(TopicChangedError):
    """No topic has the id: the topic was deleted, or the id comes from another cluster."""

    def __init__(self, ids: Sequence[str], cluster_id: str) -> None:
        super().__init__(
            f"there is no topic with id {', '.join(ids)} in cluster {cluster_id}: it was deleted (`pybroker "
            "topics deletions` lists topics that can be undeleted), or this is another cluster"
        )


class TopicGoneError(TopicChangedError):
    """A topic was deleted between two requests about it."""


class DataLossError(SparkSourceError):
    """Records between a checkpoint and the log's start have been deleted (`failOnDataLoss`)."""


class TransactionError(SparkSourceError):
    """A step of a transaction failed (`mode=transactions`)."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)

    def __reduce__(self) -> tuple[type[TransactionError], tuple[int, str]]:
        return TransactionError, (self.code, str(self))


class IngestError(SparkSourceError):
    """The broker refused a step of a staged ingest."""
