"""A node of the quorum in its own process: `python -m tests.quorum.node_process '{"node_id": 1, …}'`.

It listens on a loopback port for other nodes and for the test. A frame has 4 bytes of length, then JSON; bytes are hex.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pybroker.broker.quorum.quorum_node import ProposalError, QuorumNode
from pybroker.native import Uuid
from pybroker.native_quorum import (
    CommittedRecords,
    MetadataQuorum,
    QuorumReplica,
    QuorumRequest,
    SnapshotEnd,
    SnapshotStart,
)
from tests.quorum.frames import read_frame, write_frame

CLUSTER = "cI3nMBYCQHaSq9dLLyuxqA"


def directory_id(node_id: int) -> Uuid:
    return Uuid(1, node_id)


class Image:
    """Stores the records in their order."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.applied = 0
        self.timestamp_ms = -1
        self.snapshots = 0
        self.leader: tuple[int, int | None] = (0, None)

    def snapshot_began(self, start: SnapshotStart) -> None:
        self.records = []
        self.applied = start.end_offset
        self.snapshots += 1

    def snapshot_loaded(self, records: list[bytes]) -> None:
        self.records += records

    async def snapshot_ended(self, end: SnapshotEnd) -> None:
        assert self.applied == end.end_offset

    def committed(self, batch: CommittedRecords) -> None:
        assert batch.base_offset == self.applied
        self.applied = batch.end_offset
        self.timestamp_ms = batch.timestamp_ms
        self.records += batch.records

    def leader_changed(self, epoch: int, leader: int | None) -> None:
        self.leader = (epoch, leader)

    def voters_changed(self, voters: Any, endpoints: Any) -> None:
        pass


class Peer:
    """The connection to another node."""

    def __init__(self, port: int, failed: Callable[[int, bool], None], came: Callable[[int, bytes], None]) -> None:
        self.port = port
        self.failed = failed
        self.came = came
        self.writer: asyncio.StreamWriter | None = None
        self.asked: set[int] = set()
        self.lock = asyncio.Lock()

    async def ask(self, request: QuorumRequest) -> None:
        try:
            async with self.lock:
                if self.writer is None:
                    reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
                    self.reading = asyncio.create_task(self.read(reader, self.writer))
                self.asked.add(request.correlation)
                frame = {
                    "correlation": request.correlation,
                    "key": request.api_key,
                    "version": request.api_version,
                    "body": request.body.hex(),
                }
                write_frame(self.writer, frame)
        except OSError as problem:
            self.asked.discard(request.correlation)
            self.failed(request.correlation, isinstance(problem, ConnectionRefusedError))

    async def read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                self.asked.discard(frame["correlation"])
                self.came(frame["correlation"], bytes.fromhex(frame["body"]))
        except OSError:
            pass
        writer.close()
        self.writer = None
        for correlation in list(self.asked):
            self.failed(correlation, False)
        self.asked.clear()


async def main(settings: dict[str, Any]) -> None:
    node_id, ports = settings["node_id"], {int(node): port for node, port in settings["ports"].items()}
    directory = Path(settings["directory"])
    if not MetadataQuorum.is_formatted(directory):
        voters = [QuorumReplica(node, directory_id(node)) for node in ports]
        MetadataQuorum.format(directory, voters, [])
    native = MetadataQuorum(
        directory=directory,
        node_id=node_id,
        directory_id=directory_id(node_id),
        cluster_id=CLUSTER,
        bootstrap=list(ports),
        endpoints=[],
        settings=settings.get("settings", {}),
    )
    image = Image()
    tasks: set[asyncio.Task[None]] = set()

    def begin(work: Any) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop = asyncio.get_running_loop()
    node = QuorumNode(native, image, lambda request: begin(peers[request.peer].ask(request)), fatal, loop)
    peers = {
        peer: Peer(port, node.request_failed, node.receive_response) for peer, port in ports.items() if peer != node_id
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                begin(answer(frame, writer))
        except OSError:
            pass

    async def answer(frame: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        reply: dict[str, Any] = {"correlation": frame["correlation"]}
        if "key" in frame:
            reply["body"] = (await node.answer(frame["key"], frame["version"], bytes.fromhex(frame["body"]))).hex()
        else:
            reply |= await command(frame)
        write_frame(writer, reply)

    async def command(frame: dict[str, Any]) -> dict[str, Any]:
        match frame["command"]:
            case "propose":
                try:
                    offset = await node.propose(frame["epoch"], [record.encode() for record in frame["records"]])
                except ProposalError as problem:
                    return {"error": problem.code, "maybe": problem.maybe_committed}
                return {"offset": offset}
            case "snapshot":
                chunks = [image.records[start : start + 100] for start in range(0, len(image.records), 100)]
                return {"written": await node.write_snapshot(image.applied, image.timestamp_ms, chunks)}
            case "records":
                return {"records": [record.decode() for record in image.records]}
            case _:
                status = node.status()
                return {
                    "leader": image.leader,
                    "applied": image.applied,
                    "snapshots": image.snapshots,
                    "refusals": node.room.refusals,
                    "log_start": status.log_start,
                    "log_end": status.log_end,
                    "high_watermark": status.high_watermark,
                    "voters": [[voter.node_id, voter.end_offset] for voter in status.voters],
                }

    node.start()
    server = await asyncio.start_server(serve, "127.0.0.1", ports[node_id])
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    server.close()
    await node.stop()


def fatal(problem: Exception) -> None:
    raise SystemExit(str(problem))


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr)
    asyncio.run(main(json.loads(sys.argv[1])))
