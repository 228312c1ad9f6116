"""Trouble that has a value: a Kafka error code for clients, or a sentence for the operator.

Bugs are neither; they stay ordinary exceptions and reach `dispatch`, which logs them.
"""

from __future__ import annotations


class KafkaError(Exception):
    """A request (or one item of it) fails with a Kafka error code.

    `code` is the number of the wire (`pybroker.protocol.error_codes.ErrorCode` is an IntEnum, so members fit);
    `message` is the text that goes into `error_message` fields, None where Kafka sends none.
    """

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(int(code), message)
        self.code = int(code)
        self.message = message

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}" if self.message else f"[{self.code}]"


class StartError(Exception):
    """The broker refuses to start. The text says what is wrong and what to do; the command prints it without a
    traceback.
    """


class FatalError(Exception):
    """Going on would lose or invent state (a failed commit, a damaged store): the broker stops."""
