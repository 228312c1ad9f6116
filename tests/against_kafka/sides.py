"""One of the two brokers, with all of its responses."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import msgspec

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.kit import WAIT_S, create_topic
from tests.groups.requests import consumer_beat, consumer_join
from tests.security.kit import password_of
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

MOVING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Temporary errors: the number of responses with them is not compared."""
SECRET = {
    "port",
    "host",
    "producer_id",
    "last_timestamp",
    "transaction_start_time_ms",
    "throttle_time_ms",
    "acquisition_lock_timeout_ms",
}
"""Fields whose value only the broker determines: compare only whether there is a value."""
CLOSED = "the broker closes the connection"
WORDS = {"error_message"}
"""Values that each broker chooses itself."""
_GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CLASS = re.compile(r"Request(_\w+)?(?=\()")
_ID = re.compile(r"\b[A-Za-z0-9_-]{22}\b")


class Side:
    """A broker in a story. `answers` has the responses to compare."""

    def __init__(self, broker: BrokerProcess, sasl_port: int = 0) -> None:
        self.broker = broker
        self.answers: list[tuple[str, object]] = []
        self._sasl_port = sasl_port
        self._known: dict[str, str] = {}
        self._client: WireClient | None = None
        self._user = ""
        self._later = 0

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def login(self, user: str) -> None:
        """Send the next requests as this user, by PLAIN; "": without authentication."""
        self.close()
        self._user = user

    def topic(self, name: str, partitions: int) -> Uuid:
        """Create a topic; return its id."""
        create_topic(self.broker.bootstrap, partitions, name)
        # Kafka's coordinator sees a new topic later than others. Once it has assigned the topic, it has seen it.
        group = f"{name}-probe"
        assigned = self.until(
            lambda: consumer_join(group, "probe", name),
            1,
            lambda answer: bool(answer.assignment and answer.assignment.topic_partitions),
        )
        self.quietly(consumer_beat(group, "probe", -1), 1)
        return self.know(assigned.assignment.topic_partitions[0].topic_id, "id of a topic")

    def settled(self, name: str) -> None:
        """Return when every earlier change is visible. A broker of Kafka follows the controller's log in its order:
        when it shows a topic that was created later, it shows the earlier changes, too."""
        self._later += 1
        later = f"{name}-later-{self._later}"
        create_topic(self.broker.bootstrap, 1, later)
        wanted = m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name=later)])
        # Use a separate connection: the story's user may not be allowed to see the topic.
        with WireClient(self.broker.port, client_id="settled") as client:
            give_up = time.monotonic() + WAIT_S
            while client.call(wanted, 9).topics[0].error_code:
                assert time.monotonic() < give_up, later
                time.sleep(0.005)

    def know(self, value: Any, name: str) -> Any:
        """From now on, replace the broker's own value by this name."""
        assert str(value), f"{name} is empty"
        self._known[str(value)] = name
        return value

    @property
    def client(self) -> WireClient:
        """The story's only connection."""
        if self._client is None:
            self._client = WireClient(
                self._sasl_port if self._user else self.broker.port, client_id="story", timeout_s=30
            )
            if self._user:
                self._client.call(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
                token = f"\0{self._user}\0{password_of(self._user)}".encode()
                answer = self._client.call(m.SaslAuthenticateRequest(auth_bytes=token), 2)
                assert answer.error_code == 0, answer
        return self._client

    def quietly(self, request: Any, version: int) -> Any:
        """Return the first response without a retriable error; not compared."""
        give_up = time.monotonic() + WAIT_S
        while True:
            try:
                answer = self.client.call(request, version)
            except TimeoutError:
                raise AssertionError(f"{self.broker.name} does not answer {request}") from None
            if not MOVING & set(codes(answer)):
                return answer
            assert time.monotonic() < give_up, answer
            time.sleep(0.02)

    def ask(self, request: Any, version: int, *, but: tuple[str, ...] = ()) -> Any:
        """Send like `quietly`, and compare the response. `but`: fields in which the brokers differ; the caller gives
        the reason."""
        title = f"{_CLASS.sub('', str(request))[:200]} version {version}"
        try:
            answer = self.quietly(request, version)
        except ConnectionError:
            self.close()
            self.note(title, CLOSED)
            return None
        self.note(title, answer, but=but)
        return answer

    def note(self, title: str, answer: Any, *, but: tuple[str, ...] = ()) -> None:
        """Add a value to compare."""
        self.answers.append((title, self.plain(answer, but)))

    def until(self, make: Callable[[], Any], version: int, done: Callable[[Any], bool]) -> Any:
        """Repeat a request until its response is as wanted; not compared."""
        give_up = time.monotonic() + WAIT_S
        while not done(answer := self.quietly(make(), version)):
            assert time.monotonic() < give_up, answer
            time.sleep(0.02)
        return answer

    def plain(self, value: Any, but: tuple[str, ...] = ()) -> Any:
        """Return the comparable parts of a response, without order (the order of these lists has no meaning)."""
        if isinstance(value, msgspec.Struct):
            found: dict[str, Any] = {}
            for name in value.__struct_fields__:
                if name in but or name in WORDS:
                    continue
                field = getattr(value, name)
                if name == "host" and "operation" in value.__struct_fields__:
                    # This belongs to an ACL.
                    found[name] = field
                elif name in SECRET and isinstance(field, int):
                    found[name] = "not set" if field < 0 or name == "throttle_time_ms" else "set"
                elif name in SECRET:
                    found[name] = bool(field)
                elif name == "error_code":
                    found[name] = ErrorCode(field).name
                else:
                    found[name] = self.plain(field, but)
            return found
        if isinstance(value, list | tuple):
            return sorted((self.plain(one, but) for one in value), key=lambda one: json.dumps(one, default=str))
        if isinstance(value, float):
            # NaN is not equal to itself.
            return repr(value)
        if isinstance(value, Uuid):
            return self._known.get(str(value), "no id" if value == Uuid.ZERO else "an id")
        if isinstance(value, str):
            for known, name in self._known.items():
                value = value.replace(known, f"<{name}>")
            return _ID.sub("<id>", _GENERATED.sub("<generated>", value))
        return value


def codes(answer: Any) -> list[int]:
    """Return all error codes in a response."""
    if isinstance(answer, list):
        return [code for one in answer for code in codes(one)]
    if not isinstance(answer, msgspec.Struct):
        return []
    own = [int(answer.error_code)] if "error_code" in answer.__struct_fields__ else []
    return own + [code for name in answer.__struct_fields__ for code in codes(getattr(answer, name))]


def differences(ours: Side, kafkas: Side) -> str:
    """Return the differences, one line a field. Kafka answers some requests with UNKNOWN_SERVER_ERROR or closes the
    connection, because of an internal failure. In these cases pybroker may refuse with any error."""
    lines = []
    for number, (one, other) in enumerate(zip(ours.answers, kafkas.answers, strict=True)):
        lines += [f"answer {number}, {one[0]}{line}" for line in _unlike(one[1], other[1], "")]
    return "\n".join(lines)


def _unlike(one: Any, other: Any, path: str) -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one for line in _unlike(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for at, pair in pairs for line in _unlike(*pair, f"{path}[{at}]")]
    if other == CLOSED and _refused(one):
        return []
    if other == ErrorCode.UNKNOWN_SERVER_ERROR.name and one != ErrorCode.NONE.name:
        return []
    return [] if one == other else [f"{path}: pybroker {one!r}, Apache Kafka {other!r}"]


def _refused(answer: object) -> bool:
    """Return whether a compared response has an error."""
    if isinstance(answer, dict):
        return answer.get("error_code", ErrorCode.NONE.name) != ErrorCode.NONE.name or _refused(list(answer.values()))
    return isinstance(answer, list) and any(_refused(one) for one in answer)
