"""Fragments of a page. If the user is not authorized for a fragment, or the cluster cannot answer, the fragment
contains the reason, and the rest of the page is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pybroker.client import (
    AuthenticationError,
    BrokerConnectionError,
    ClientConfigError,
    ErrorCode,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)

Value = TypeVar("Value")

TROUBLE = (KafkaError, BrokerConnectionError, KafkaTimeoutError, ClientConfigError)
"""Refusals and failures of the cluster; any other exception is a bug."""

ABSENT = "This cluster does not support this function of pybroker; Apache Kafka has no equivalent."


PART_S = 3.0


@dataclass(frozen=True, slots=True)
class Fragment(Generic[Value]):
    """The value of a fragment, or the reason why there is none. absent: the cluster does not offer it or is not
    configured for it, which is not an error."""

    value: Value | None
    problem: str | None = None
    absent: bool = False

    def __bool__(self) -> bool:
        return self.problem is None


async def fragment(work: Awaitable[Value], seconds: float | None = None) -> Fragment[Value]:
    """Return the result of `work`, or its failure as a sentence. seconds: time limit. Without it, one broker that does
    not respond would delay the fragments of other brokers."""
    try:
        return Fragment(await asyncio.wait_for(work, seconds))
    except UnsupportedVersionError:
        return Fragment(None, ABSENT, absent=True)
    except AuthenticationError:
        raise
    except TROUBLE as error:
        is_off = isinstance(error, KafkaError) and error.code == ErrorCode.SECURITY_DISABLED
        return Fragment(None, error_text(error), absent=is_off)
    except TimeoutError:
        return Fragment(None, f"No response within {seconds:g} s.")


async def fragments(*works: Awaitable[Any]) -> list[Fragment[Any]]:
    """Run all at the same time, each with a time limit of PART_S."""
    return list(await asyncio.gather(*(fragment(work, PART_S) for work in works)))


_WORDS: dict[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Permission denied: an ACL entry for the topic is missing",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Permission denied: an ACL entry for the group is missing",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Permission denied: an ACL entry for the cluster is missing",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "There is no such topic",
    ErrorCode.UNKNOWN_TOPIC_ID: "There is no topic with that id",
    ErrorCode.NON_EMPTY_GROUP: "The group has members; stop them first",
    ErrorCode.SECURITY_DISABLED: "Access control is not enabled (authorizer.class.name is not set)",
}


def error_text(error: Exception) -> str:
    """Return one sentence for people, with Kafka's name of the error code."""
    if isinstance(error, AuthenticationError):
        if error.code == ErrorCode.ILLEGAL_SASL_STATE:
            return (
                "The broker's listener requires a login. Start the console with a --command-config that sets "
                "security.protocol=SASL_SSL (or SASL_PLAINTEXT)."
            )
        return f"Wrong user or password. {error.message or ''}".strip()
    if isinstance(error, KafkaError):
        explanation = _WORDS.get(error.code)
        text = error.message or ""
        if explanation is None:
            return f"{text or 'The broker refused'} ({error.name})"
        return f"{explanation} ({error.name}{': ' + text if text else ''})"
    return str(error) or "The broker did not respond in time."
