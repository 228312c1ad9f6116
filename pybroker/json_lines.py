"""The log as JSON (`log.format=json`)."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (UTC, RFC 3339), `level`, `event`, `message`, `logger`, and `error`: a traceback.

    `event` names what has happened, not how it is said this time: the message without what changes in it.
    """

    def __init__(self, levels: Mapping[int, str]) -> None:
        """levels: their names."""
        super().__init__()
        self._levels = levels

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = record.getMessage()
        fields = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": self._levels.get(record.levelno, record.levelname),
            "event": event_of(record, message),
            "message": message,
            "logger": record.name,
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=True)


EVENT_CHARACTERS_MAX = 60
_VARIABLE = re.compile(r"%[-#0 +]*[\d.]*[a-zA-Z]|%%")
_NATIVE_VARIABLE = re.compile(r"\(.*\)|\[.*\]|\"[^\"]*\"|'[^']*'|\S*[\d/=]\S*")


def event_of(record: logging.LogRecord, message: str) -> str:
    """A name in small letters: what the call says (`extra={"event": …}`), or the constant words of the message."""
    given = getattr(record, "event", None)
    if isinstance(given, str):
        return given
    template = str(record.msg)
    # Native code and warnings hand over whole sentences.
    words = _NATIVE_VARIABLE.sub(" ", message) if template == "%s" else _VARIABLE.sub(" ", template)
    name = "_".join(re.findall(r"[a-z0-9]+", words.lower()))[:EVENT_CHARACTERS_MAX].rstrip("_")
    return name or "log"
