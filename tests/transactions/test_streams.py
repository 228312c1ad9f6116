"""Kafka's own smoke test of Kafka Streams, exactly once, while the broker and an instance of it are killed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.conftest import StartBroker
from tests.groups.kit import create_topic
from tests.support.java import java_command, running
from tests.support.maven import STREAMS, jars

TOPICS = (
    *("data", "echo", "max", "min", "min-raw", "min-suppressed", "sum", "dif", "cnt", "avg", "tagg", "fk"),
    *("sws-raw", "sws-suppressed"),
)
PARTITIONS = 5
GIVE_UP_S = 900.0
"""A time limit that only failures reach: the test's data takes 90 s."""

OF_CLIENTS = {
    "classic": {"session.timeout.ms": "10000", "num.standby.replicas": "1"},
    "streams": {"group.protocol": "streams"},
}
"""Settings of the instances for each protocol of their group."""
OF_BROKER = {
    "classic": {},
    "streams": {
        "group.streams.min.session.timeout.ms": "10000",
        "group.streams.session.timeout.ms": "10000",
        "group.streams.num.standby.replicas": "1",
    },
}
"""The corresponding settings of the broker: with the streams protocol, the broker sends them to the instances
(KIP-1071)."""


def settings(folder: Path, bootstrap: str, protocol: str) -> Path:
    """Write the settings file that each of the test's programs reads."""
    folder.mkdir()
    path = folder / "streams.properties"
    own = {
        "bootstrap.servers": bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(folder),
        **OF_CLIENTS[protocol],
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
    return path


@contextmanager
def program(
    folder: Path, bootstrap: str, protocol: str, command: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run one of the test's programs; yield it with the file that contains its output."""
    arguments = [str(settings(folder, bootstrap, protocol)), command]
    line = java_command(f"{jars(STREAMS)}/*", "org.apache.kafka.streams.tests.StreamsSmokeTest", arguments)
    line.insert(1, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    output = folder / "output.txt"
    with running(line, output) as process:
        yield process, output


def wait_for(condition: Callable[[], bool], *who: tuple[subprocess.Popen[bytes], Path]) -> None:
    """Wait for a condition, while all of `who` run."""
    give_up = time.monotonic() + GIVE_UP_S
    while not condition():
        for process, output in who:
            assert process.poll() is None, output.read_text()[-3000:]
            assert time.monotonic() < give_up, output.read_text()[-3000:]
        time.sleep(0.1)


def processed(output: Path) -> int:
    """Return the number of progress reports of an instance: one for every hundred records of a task."""
    return output.read_text(errors="replace").count("processed")


@pytest.mark.slow
@pytest.mark.timeout(3 * GIVE_UP_S)
@pytest.mark.checklist("E7", "E10", "E11")
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_the_smoke_test_of_streams_outlives_the_broker_and_an_instance(
    start_broker: StartBroker, tmp_path: Path, protocol: str
) -> None:
    broker = start_broker(OF_BROKER[protocol])
    for topic in TOPICS:
        create_topic(broker.bootstrap, PARTITIONS, topic)
    with ExitStack() as stack:
        driver, said = stack.enter_context(program(tmp_path / "driver", broker.bootstrap, protocol, "run"))
        first, of_first = stack.enter_context(program(tmp_path / "first", broker.bootstrap, protocol, "process"))
        second, of_second = stack.enter_context(program(tmp_path / "second", broker.bootstrap, protocol, "process"))

        def second_goes_on() -> None:
            before = processed(of_second)
            wait_for(lambda: processed(of_second) > before, (second, of_second))

        wait_for(lambda: processed(of_first) > 0, (first, of_first), (second, of_second))
        second_goes_on()
        broker.restart(crash=True)
        second_goes_on()
        first.kill()
        second_goes_on()
        third = stack.enter_context(program(tmp_path / "third", broker.bootstrap, protocol, "process"))
        broker.restart(crash=True)
        wait_for(lambda: driver.poll() is not None, (second, of_second), third)
    assert said.read_text().splitlines()[-1:] == ["SUCCESS"], said.read_text()[-3000:]
