"""A share session: fetches from one broker and acknowledgements to it, one request at a time (KIP-932).

A session ends at the latest when its connection closes. The broker then releases the member's records and refuses later
acknowledgements of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pybroker.client.client_errors import KafkaError, UnsupportedVersionError, broker_error
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import LOST, Network
from pybroker.client.share.acknowledgements import RENEW, Partition, Said, batches, by_topic
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

LANE = "share"
OPENS, CLOSES, EPOCH_MAX = 0, -1, 0x7FFFFFFF
RECORD_LIMIT = 1
SINCE_RENEWAL = 2
"""First version with lock renewal (KIP-1222) and a strict limit of records (KIP-1206)."""
OVER = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})

Result = Callable[[Partition, Mapping[int, int], KafkaError | None], None]
"""Called with the result of the acknowledgements of a partition."""


class ShareSession:
    """A share session with one broker. `on_result` is called with the result of each acknowledgement."""

    def __init__(self, config: ClientConfig, network: Network, node: int, member_id: str, on_result: Result) -> None:
        self._config = config
        self._network = network
        self._node = node
        self._member_id = member_id
        self._on_result = on_result
        self._epoch = OPENS
        self._partitions: frozenset[Partition] = frozenset()
        self._lock = asyncio.Lock()
        self.said: Said = {}
        """Acknowledgements for the next request."""

    def say(self, partition: Partition, offset: int, kind: int) -> None:
        """Queue the acknowledgement of a record that was acquired in this session."""
        self.said.setdefault(partition, {})[offset] = kind

    async def fetch(self, wanted: frozenset[Partition]) -> Any:
        """Return the ShareFetch response for these partitions. Raises KafkaError if the broker refuses,
        BrokerConnectionError if the connection breaks, KafkaTimeoutError if it does not respond in time.
        """
        if self.said.keys() - wanted:
            # A ShareFetch reads from every partition that it names, so acknowledge records of other partitions
            # separately.
            await self.acknowledge()
        async with self._lock:
            said = self._take()
            named = {*(wanted - self._partitions), *said}
            request = m.ShareFetchRequest(
                group_id=self._config["group.id"],
                member_id=self._member_id,
                share_session_epoch=self._epoch,
                max_wait_ms=self._config["fetch.max.wait.ms"],
                min_bytes=self._config["fetch.min.bytes"],
                max_bytes=self._config["fetch.max.bytes"],
                max_records=self._config["max.poll.records"],
                batch_size=self._config["max.poll.records"],
                share_acquire_mode=RECORD_LIMIT if self._config["share.acquire.mode"] == "record_limit" else 0,
                topics=[
                    m.ShareFetchRequest_FetchTopic(
                        topic_id=topic_id,
                        partitions=[
                            m.ShareFetchRequest_FetchPartition(
                                partition_index=index,
                                acknowledgement_batches=batches(
                                    said.get((topic_id, index), {}), m.ShareFetchRequest_AcknowledgementBatch
                                ),
                            )
                            for index in indexes
                        ],
                    )
                    for topic_id, indexes in by_topic(named).items()
                ],
                forgotten_topics_data=[
                    m.ShareFetchRequest_ForgottenTopic(topic_id=topic_id, partitions=indexes)
                    for topic_id, indexes in by_topic(self._partitions - wanted).items()
                ],
            )
            limit = self._config.seconds("request.timeout.ms") + self._config.seconds("fetch.max.wait.ms")
            answer = await self._ask(request, said, limit)
            self._partitions = wanted
            self._judge(answer, said, "acknowledge_error_code", "acknowledge_error_message")
            return answer

    async def acknowledge(self, *, ends: bool = False) -> None:
        """Send the queued acknowledgements; if `ends` is true, also close the session. Raises the same errors as
        `fetch`.
        """
        async with self._lock:
            said = self._take()
            if self._epoch == OPENS or not (said or ends):
                return
            request = _acknowledging(said)
            request.group_id, request.member_id = self._config["group.id"], self._member_id
            request.share_session_epoch = CLOSES if ends else self._epoch
            answer = await self._ask(request, said, self._config.seconds("request.timeout.ms"))
            self._judge(answer, said, "error_code", "error_message")
            if ends:
                self._reset()

    async def renew(self, offsets: Mapping[Partition, Iterable[int]]) -> None:
        """Extend locks. Raises the same errors as `fetch`, and KafkaError INVALID_RECORD_STATE if another member has
        acquired a record by now.
        """
        async with self._lock:
            said: Said = {partition: dict.fromkeys(each, RENEW) for partition, each in offsets.items()}
            if self._epoch == OPENS:
                raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, "the share session with the broker has ended")
            connection = await self._network.connection(self._node, LANE)
            if connection.highest(m.ShareAcknowledgeRequest) < SINCE_RENEWAL:
                raise UnsupportedVersionError("the broker does not support renewing locks (KIP-1222)")
            request = _acknowledging(said)
            request.group_id, request.member_id = self._config["group.id"], self._member_id
            request.share_session_epoch, request.is_renew_ack = self._epoch, True
            answer = await self._ask(request, {}, self._config.seconds("request.timeout.ms"))
        for topic in answer.responses:
            for row in topic.partitions:
                if row.error_code:
                    raise broker_error(row.error_code, row.error_message)

    def _take(self) -> Said:
        """Take the queued acknowledgements. Fail the acknowledgements of a session that has ended."""
        said, self.said = self.said, {}
        if self._epoch == OPENS and said:
            self._fail(
                said, KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, "the share session with the broker has ended")
            )
            return {}
        return said

    async def _ask(self, request: Any, said: Said, timeout_s: float) -> Any:
        try:
            connection = await self._network.connection(self._node, LANE)
            if not connection.supports(type(request), 1):
                raise UnsupportedVersionError(
                    "the broker does not support share groups (KIP-932, its feature share.version)"
                )
            version = connection.highest(type(request))
            if version < SINCE_RENEWAL and getattr(request, "share_acquire_mode", None):
                raise UnsupportedVersionError(
                    "share.acquire.mode=record_limit: the broker does not support it (KIP-1206)"
                )
            answer = await connection.request(request, version, timeout_s=timeout_s)
        except (*LOST, KafkaError) as error:
            self._reset()
            lost = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
            self._fail(said, lost)
            raise
        except asyncio.CancelledError:
            self._reset()
            self._fail(said, KafkaError(ErrorCode.NETWORK_EXCEPTION, "the acknowledgement was not awaited"))
            raise
        if answer.error_code:
            problem = broker_error(answer.error_code, answer.error_message)
            if answer.error_code in OVER:
                self._reset()
            self._fail(said, problem)
            raise problem
        if self._epoch >= OPENS:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return answer

    def _judge(self, answer: Any, said: Said, code: str, message: str) -> None:
        problems = {
            (topic.topic_id, row.partition_index): broker_error(getattr(row, code), getattr(row, message))
            for topic in answer.responses
            for row in topic.partitions
            if getattr(row, code)
        }
        for partition, offsets in said.items():
            self._on_result(partition, offsets, problems.get(partition))

    def _fail(self, said: Said, problem: KafkaError) -> None:
        for partition, offsets in said.items():
            self._on_result(partition, offsets, problem)

    def _reset(self) -> None:
        self._epoch = OPENS
        self._partitions = frozenset()


def _acknowledging(said: Said) -> m.ShareAcknowledgeRequest:
    return m.ShareAcknowledgeRequest(
        topics=[
            m.ShareAcknowledgeRequest_AcknowledgeTopic(
                topic_id=topic_id,
                partitions=[
                    m.ShareAcknowledgeRequest_AcknowledgePartition(
                        partition_index=index,
                        acknowledgement_batches=batches(
                            said[topic_id, index], m.ShareAcknowledgeRequest_AcknowledgementBatch
                        ),
                    )
                    for index in indexes
                ],
            )
            for topic_id, indexes in by_topic(said).items()
        ]
    )
