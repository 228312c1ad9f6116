"""The log as JSON (`log.format=json`)."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping

from pybroker.broker.log_limits import message_of
from pybroker.log_topic_names import with_names


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time` (UTC, RFC 3339), `level`, `event`, `message`, `logger`, and `error`: a
    traceback.

    `event` identifies the event independently of the message's wording (`event_of`).
    """

    def __init__(self, levels: Mapping[int, str]) -> None:
        """`levels` maps level numbers to names."""
        super().__init__()
        self._levels = levels

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = message_of(record)
        fields = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": self._levels.get(record.levelno, record.levelname),
            "event": event_of(record, message),
            "message": with_names(message),
            "logger": record.name,
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=True)


EVENTS: tuple[tuple[str, str], ...] = (
    ("slow request: ", "slow_request"),
    ("the TLS handshake failed: ", "tls_handshake_failed"),
    ("its TLS handshake did not end in time", "tls_handshake_timed_out"),
    ("TLS failed: ", "tls_failed"),
    ("it does not speak TLS, but this listener does", "plaintext_client_on_tls_listener"),
    ("it speaks TLS, but this listener is plaintext", "tls_client_on_plaintext_listener"),
    ("it speaks HTTP, not Kafka's protocol", "http_client"),
    ("before authentication; set security.protocol=", "client_without_login"),
    ("it did not authenticate in time", "authentication_timed_out"),
    ("fits none of ssl.principal.mapping.rules", "certificate_without_principal"),
    ("an incomplete request got no more bytes", "request_incomplete"),
    ("it does not read its replies", "replies_not_read"),
    ("a request that cannot be decoded: ", "request_unreadable"),
    ("is not served here", "request_not_served"),
    ("bytes, allowed are 8 to ", "request_size_refused"),
    ("a produce with acks=0 failed with error ", "produce_without_acks_failed"),
    ("denied request principal=", "topic_access_denied"),
    ("connection from * refused: ", "connection_refused"),
    (" lines about connections were left out", "log_lines_left_out"),
    (" lines were dropped, the log could not keep up", "log_lines_left_out"),
    (" cannot accept: ", "listener_cannot_accept"),
    ("log directory * is offline: ", "log_directory_offline"),
    ("log directory full path=", "log_directory_full"),
    ("log directory has room again path=", "log_directory_has_room"),
    (" are lost to damage on disk", "records_lost"),
    (" bytes of an unfinished append", "unfinished_append_removed"),
    ("Kafka settings that have no effect in this broker: ", "settings_without_effect"),
    ("Settings that this broker ignores: ", "settings_ignored"),
    ("Listeners reachable from other machines without authentication: ", "listener_without_authentication"),
    (" was not closed by a clean stop", "recovery_after_unclean_stop"),
)
"""Patterns of unformatted sentences from native code and from warnings, each with its event. A pattern consists of
words that occur only in that sentence (`*` matches any text). docs/operations.md documents the events for operators'
alerts.
"""
EVENT_CHARACTERS_MAX = 60
_PATTERNS = [(re.compile(".*".join(map(re.escape, words.split("*")))), event) for words, event in EVENTS]
_VARIABLE = re.compile(r"%[-#0 +]*[\d.]*[a-zA-Z]|%%")
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_FIELDS = re.compile(r"(?<=\S)\s[\w.]+=.*", re.DOTALL)
"""Splits a message into its constant words and its fields. Example: `topic deleted name=orders id=…`."""
_NATIVE_VARIABLE = re.compile(r"\(.*\)|\[.*\]|'[^']*'|\S*[\d/=]\S*")


def event_of(record: logging.LogRecord, message: str) -> str:
    """Return a lowercase event name: the name that the log call gives (`extra={"event": …}`), or the event of a
    sentence in `EVENTS`, or the constant words of the message before its fields.
    """
    own = getattr(record, "event", None)
    if isinstance(own, str):
        return own
    template = str(record.msg)
    if template == "%s":
        # The quoted parts come from clients: client ids, names.
        words = _QUOTED.sub(" ", message)
        for pattern, event in _PATTERNS:
            if pattern.search(words):
                return event
        words = _NATIVE_VARIABLE.sub(" ", _FIELDS.sub("", words))
    else:
        words = _VARIABLE.sub(" ", _FIELDS.sub("", template))
    name = "_".join(re.findall(r"[a-z0-9]+", words.lower()))[:EVENT_CHARACTERS_MAX].rstrip("_")
    return name or "log"
