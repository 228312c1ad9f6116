"""The library's exceptions, in three families.

* `KafkaError` and its children: the broker, or the library on its behalf, refuses with one of Kafka's error codes.
  The text begins with the code's name and says whether Kafka's clients would ask again.
* `ConnectionError` and `TimeoutError`, Python's own: the broker cannot be reached or does not answer in time.
* `ClientConfigError`: a setting is wrong; nothing was tried.
"""

from __future__ import annotations

import pybroker.errors
from pybroker.config.values import ConfigError
from pybroker.protocol.error_codes import RETRIABLE, ErrorCode, error_name

__all__ = [
    "AuthenticationError",
    "BrokerConnectionError",
    "ClientConfigError",
    "CommitFailedError",
    "ErrorCode",
    "KafkaError",
    "KafkaTimeoutError",
    "NoOffsetError",
    "ProducerFencedError",
    "RecordTooLargeError",
    "TopicRecreatedError",
    "TransactionFailedError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "broker_error",
    "is_retriable",
]


class KafkaError(pybroker.errors.KafkaError):
    """A request, or one item of it, is refused. code: Kafka's (`ErrorCode`). message: what the broker says, or what
    was asked.
    """

    @property
    def name(self) -> str:
        """Kafka's name of the code, `UNKNOWN_TOPIC_OR_PARTITION`; `error 999` for one that nobody knows."""
        return error_name(self.code)

    @property
    def retriable(self) -> bool:
        """Whether trying again, after a pause, may help."""
        return is_retriable(self.code)

    def __str__(self) -> str:
        head = f"{self.name} ({'retriable' if self.retriable else 'not retriable'})"
        return f"{head}: {self.message}" if self.message else head


class ClientConfigError(ConfigError, ValueError):
    """A client setting that is unknown or has a value that it cannot have. The text names it and the remedy."""


class BrokerConnectionError(ConnectionError):
    """A connection cannot be made or was lost. The text names the address and the reason; the request may have been
    executed, so repeat it only if executing it twice does no harm.
    """


class KafkaTimeoutError(TimeoutError):
    """No answer within the time that a setting allows. The text names both."""


class AuthenticationError(KafkaError):
    """The broker rejects the client's credentials, or wants some (code ILLEGAL_SASL_STATE: set `security.protocol`), or
    the client rejects the broker (SCRAM's server signature).
    """

    def __init__(self, message: str, code: int = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(code, message)


class UnsupportedVersionError(KafkaError):
    """The broker does not know the request, or not in a version that can say what was asked."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)


class TopicRecreatedError(KafkaError):
    """The topic was deleted and created again: what was meant for the old incarnation must not touch the new one.

    Producer: the record was not written to the new topic (setting `on.topic.recreated`). Consumer: the position
    belongs to the old topic and `auto.offset.reset` is `none`.
    """

    retriable = False

    def __init__(self, topic: str, old: object, new: object) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"topic {topic} was deleted and created again: id {old} is gone, the name now belongs to {new}",
        )
        self.topic = topic
        self.old_topic_id = old
        self.new_topic_id = new


class UnknownTopicError(KafkaError):
    """There is no such topic or partition, by name or by id, and it did not appear in time."""


class RecordTooLargeError(KafkaError):
    """A record exceeds `max.request.size` or what the broker accepts."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, message)


class NoOffsetError(KafkaError):
    """There is no committed offset, or none of this incarnation of the topic, and `auto.offset.reset` is `none`."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class CommitFailedError(KafkaError):
    """The group has moved on: the partitions may belong to another member now, and nothing was committed."""

    retriable = False


class ProducerFencedError(KafkaError):
    """Another producer has the transactional id, or the transaction took longer than its time-out: this producer can
    only be closed.
    """

    retriable = False


class TransactionFailedError(KafkaError):
    """The transaction can only be aborted; what was written in it is not seen by who reads committed records."""

    retriable = False

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.TRANSACTION_ABORTABLE, message)


def broker_error(code: int, message: str | None = None, *, about: str = "") -> KafkaError:
    """The exception for a code in an answer. `about` says what was asked, for codes that come without a text."""
    return KafkaError(code, message or about or None)


def is_retriable(code: int) -> bool:
    """Whether asking again may help."""
    return code in RETRIABLE
