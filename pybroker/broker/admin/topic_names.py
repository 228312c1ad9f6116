"""Checks topic names. Pure.

The alphabet makes names safe as directory names and znodes: no separators, no NUL, ASCII only.
"""

from __future__ import annotations

from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

NAME_CHARACTERS_MAX = 249
"""Kafka's limit. A directory name has at most 255 bytes, which include "-" and the partition number."""

METADATA_LOG = "__cluster_metadata"
METADATA_LOG_DIRECTORY = f"{METADATA_LOG}-0"
"""Its directory in `metadata.log.dir`, as in Kafka."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION with the reason if the name is illegal."""
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
    """Raise KafkaError with the reason if no topic may be created with this name. INVALID_TOPIC_EXCEPTION: the name is
    illegal. TOPIC_AUTHORIZATION_FAILED, as in Kafka: it is the name of Kafka's metadata log, and Kafka's tools would
    mistake the topic for that log.
    """
    check_topic_name(name)
    if name == METADATA_LOG:
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"'{name}' is the name of Kafka's metadata log and cannot be created."
        )


def is_topic_name(name: str) -> bool:
    """Return whether the name is legal."""
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True
