"""Nodes of the quorum in processes, which a test kills and starts again."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from pybroker.broker.offline.adopt.kafka_batches import values
from tests.quorum.frames import read_frame, write_frame

WAIT_S = 120


class NodeProcess:
    """A node and the test's connection to it."""

    def __init__(self, node_id: int, directory: Path, ports: dict[int, int], settings: dict[str, Any]) -> None:
        self.node_id = node_id
        self.directory = directory
        self.port = ports[node_id]
        self.arguments = json.dumps(
            {"node_id": node_id, "directory": str(directory), "ports": ports, "settings": settings}
        )
        self.process: asyncio.subprocess.Process | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.numbers = count()

    async def start(self) -> None:
        command = [sys.executable, "-m", "tests.quorum.node_process", self.arguments]
        self.process = await asyncio.create_subprocess_exec(*command)
        await until(self.connected, f"node {self.node_id} listens")

    async def connected(self) -> bool:
        assert self.process is not None
        assert self.process.returncode is None, f"node {self.node_id} ended"
        try:
            reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionRefusedError:
            return False
        self.reading = asyncio.create_task(self.read(reader))
        return True

    async def read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                self.waiting.pop(frame["correlation"]).set_result(frame)
        except OSError:
            pass
        self.writer = None
        for waiting in self.waiting.values():
            waiting.set_exception(ConnectionError(f"node {self.node_id} is gone"))
        self.waiting.clear()

    async def ask(self, command: str, **arguments: Any) -> Any:
        if self.writer is None:
            raise ConnectionError(f"node {self.node_id} is gone")
        number = next(self.numbers)
        reply = asyncio.get_running_loop().create_future()
        self.waiting[number] = reply
        write_frame(self.writer, {"correlation": number, "command": command, **arguments})
        return await reply

    async def until(self, condition: Callable[[Any], bool], what: str) -> None:
        """Wait for a condition on a status."""

        async def met() -> bool:
            return condition(await self.ask("status"))

        await until(met, what)

    async def kill(self) -> None:
        """Kill the process as by `kill -9`: nothing is closed."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        await self.reading

    async def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert await self.process.wait() == 0
        await self.reading

    def log(self) -> list[tuple[int, bytes]]:
        """Return offset and value of each data record on the disk."""
        return [record for segment in sorted(self.directory.glob("*.log")) for record in values(segment)]

    def segments(self) -> dict[str, bytes]:
        return {segment.name: segment.read_bytes() for segment in self.directory.glob("*.log")}


class Quorum:
    """Several nodes."""

    def __init__(self, root: Path, size: int, settings: dict[str, Any] | None = None) -> None:
        ports = dict(zip(range(1, size + 1), free_ports(size), strict=True))
        # A timeout that is too long for a slow machine to depose a leader. The nodes notice a killed leader by its
        # closed port.
        settings = {"controller.quorum.fetch.timeout.ms": 20_000, **(settings or {})}
        self.nodes = {
            node: NodeProcess(node, root / str(node) / "__cluster_metadata-0", ports, settings) for node in ports
        }

    async def __aenter__(self) -> Quorum:
        await asyncio.gather(*(node.start() for node in self.nodes.values()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.process.returncode is None:
                await node.kill()

    async def leader(self, but: int | None = None) -> tuple[NodeProcess, int]:
        """Return the node that leads, by its own status, and its epoch."""
        found: list[tuple[int, int]] = []

        async def elected() -> bool:
            for node in self.nodes.values():
                try:
                    epoch, leader = (await node.ask("status"))["leader"]
                except ConnectionError:
                    continue
                if leader == node.node_id != but:
                    found.append((epoch, leader))
            return bool(found)

        await until(elected, "a leader")
        epoch, leader = max(found)
        return self.nodes[leader], epoch

    async def stop(self) -> None:
        """Stop all nodes, the leader last, so that the others elect no new leader and append nothing."""
        leader, _ = await self.leader()
        for node in sorted(self.nodes.values(), key=lambda node: node is leader):
            await node.stop()

    async def settled(self) -> None:
        """Wait until all nodes have the same log, and all of it is committed."""

        async def equal() -> bool:
            states = [await node.ask("status") for node in self.nodes.values()]
            ends = {(state["log_end"], state["applied"]) for state in states}
            return len(ends) == 1 and all(end == applied for end, applied in ends)

        await until(equal, "all nodes have everything")


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await condition():  # noqa: ASYNC110 - another process says it
            await asyncio.sleep(0.02)


def free_ports(number: int) -> Iterable[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
