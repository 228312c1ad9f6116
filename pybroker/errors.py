"""Errors that are expected. They have a Kafka error code for clients, or a sentence for the operator.

Bugs are ordinary exceptions; `dispatch` logs them.
"""

from __future__ import annotations


class KafkaError(Exception):
    """A Kafka error code as the result of a request or of one of its items.

    `code` is the number on the wire (`pybroker.protocol.error_codes.ErrorCode` is an IntEnum, so its members are
    numbers). `message` is the text for `error_message` fields, None where Kafka sends no text.
    """

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(int(code), message)
        self.code = int(code)
        self.message = message

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}" if self.message else f"[{self.code}]"


class StartError(Exception):
    """The broker refuses to start. The text gives the problem and the remedy; the command prints it without a
    traceback."""


class FatalError(Exception):
    """The broker stops, because it would lose or corrupt state if it continued (a failed commit, a damaged store)."""
