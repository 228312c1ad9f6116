"""The library's exceptions, in three families.

* `KafkaError` and subclasses: the broker, or the library, refuses with one of Kafka's error codes. The text starts with
  the code's name and says whether Kafka's clients would retry.
* `ConnectionError` and `TimeoutError`, Python's own: the broker is unreachable or does not respond in time.
* `ClientConfigError`: a setting is wrong; the client sent nothing.
"""

from __future__ import annotations

import pybroker.errors
from pybroker.config.setting_values import ConfigError
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
    "UnknownHostError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "broker_error",
    "is_retriable",
]


class KafkaError(pybroker.errors.KafkaError):
    """The broker or the library refuses a request, or one item of it. code: Kafka's error code (`ErrorCode`). message:
    the broker's message, or a description of the request.
    """

    @property
    def name(self) -> str:
        """Kafka's name of the code, such as `UNKNOWN_TOPIC_OR_PARTITION`; `error 999` for an unknown code."""
        return error_name(self.code)

    @property
    def retriable(self) -> bool:
        """Whether a retry after a pause may succeed."""
        return is_retriable(self.code)

    def __str__(self) -> str:
        head = f"{self.name} ({'retriable' if self.retriable else 'not retriable'})"
        return f"{head}: {self.message}" if self.message else head


class ClientConfigError(ConfigError, ValueError):
    """A client setting that is unknown or has an invalid value. The text names the setting and the remedy."""


class BrokerConnectionError(ConnectionError):
    """A connection failed or was lost. The text contains the address and the reason. The broker may have executed the
    request, so repeat it only if a second execution does no harm.
    """


class KafkaTimeoutError(TimeoutError):
    """No response within the time limit that a setting gives. The text names the request and the setting."""


class AuthenticationError(KafkaError):
    """The broker rejects the client's credentials or requires credentials (code ILLEGAL_SASL_STATE: set
    `security.protocol`), or the client rejects the broker (SCRAM's server signature).
    """

    def __init__(self, message: str, code: int = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(code, message)


class UnsupportedVersionError(KafkaError):
    """The broker does not know the request, or knows no version that can carry the given arguments."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)


class TopicRecreatedError(KafkaError):
    """The topic was deleted and created again; the old incarnation's records or position do not apply to the new one.

    Producer: the record was not written to the new topic (setting `on.topic.recreated`). Consumer: the position belongs
    to the old topic and `auto.offset.reset` is `none`.
    """

    retriable = False

    def __init__(self, topic: str, old: object, new: object) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"topic {topic} was deleted and created again: the old id was {old}, the new id is {new}",
        )
        self.topic = topic
        self.old_topic_id = old
        self.new_topic_id = new


class UnknownHostError(KafkaError):
    """A broker advertises an address whose host name does not resolve on this machine. Waiting does not help: the
    broker's settings are wrong, or this machine lacks the name.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            ErrorCode.INVALID_CONFIG,
            (
                f"the broker's advertised address {address} has a host name that does not resolve on this machine "
                f"({reason}): set advertised.listeners of the broker to a name that clients know, or add the name "
                "to DNS or /etc/hosts here"
            ),
        )


class UnknownTopicError(KafkaError):
    """The topic or partition does not exist, by name or by id, and did not appear in time."""


class RecordTooLargeError(KafkaError):
    """A record exceeds `max.request.size` or the broker's limit."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, message)


class NoOffsetError(KafkaError):
    """`auto.offset.reset` is `none`, and the group has no committed offset in this incarnation of the topic."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class CommitFailedError(KafkaError):
    """The group rebalanced: another member may own the partitions. The broker committed nothing."""

    retriable = False


class ProducerFencedError(KafkaError):
    """Another producer uses the transactional id, or the transaction exceeded its timeout: the only remaining call is
    `close`.
    """

    retriable = False


class TransactionFailedError(KafkaError):
    """The only remaining call is `abort`; `read_committed` consumers do not see the transaction's records."""

    retriable = False

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.TRANSACTION_ABORTABLE, message)


def broker_error(code: int, message: str | None = None, *, about: str = "") -> KafkaError:
    """Return the exception for a code in a response. about: what the client requested; it becomes the message if the
    response has none.
    """
    return KafkaError(code, message or about or None)


def is_retriable(code: int) -> bool:
    """Return whether a retry may succeed."""
    return code in RETRIABLE
