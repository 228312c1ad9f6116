"""Which topic names are legal. Pure.

The alphabet keeps names safe as directory names and znodes: no separators, no NUL, nothing beyond ASCII.
"""

from __future__ import annotations

from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

NAME_CHARACTERS_MAX = 249
"""Kafka's limit: 255 bytes of a directory name less "-" and the partition number."""

METADATA_LOG = "__cluster_metadata"

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    """Raises KafkaError INVALID_TOPIC_EXCEPTION with the reason."""
    problem = None
    if not name:
        problem = "it is empty"
    elif name in (".", ".."):
        problem = f"it is '{name}'"
    elif len(name) > NAME_CHARACTERS_MAX:
        problem = f"it has {len(name)} characters, at most {NAME_CHARACTERS_MAX} are allowed"
    elif not _LEGAL.issuperset(name):
        problem = "it has characters other than ASCII letters, digits, '.', '_' and '-'"
    if problem is not None:
        shown = name if len(name) <= NAME_CHARACTERS_MAX else name[:NAME_CHARACTERS_MAX] + "…"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name '{shown}' is invalid: {problem}.")


def check_new_name(name: str) -> None:
    """Raises KafkaError, with the reason, if nobody may give this name to a topic: INVALID_TOPIC_EXCEPTION, or for the
    metadata log of Apache Kafka TOPIC_AUTHORIZATION_FAILED, as there: its tools would take the topic for that log.
    """
    check_topic_name(name)
    if name == METADATA_LOG:
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"'{name}' is the name of Kafka's metadata log: nobody may create it."
        )


def is_topic_name(name: str) -> bool:
    """Whether the name is legal."""
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True
