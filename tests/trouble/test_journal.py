"""Faults of the journal of a log directory: no space for it, and damage in it."""

from __future__ import annotations

import os
import re
import resource
import signal
import struct
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.disks import can_mount
from tests.support.wire import free_port
from tests.trouble.conftest import MakeDisk
from tests.trouble.test_full_disk import limit_files
from tests.trouble.traffic import Sent, create, missing, read, send

MAGIC = b"pybjrnl1"
BLOCK_BYTES = 4096
HEADER_BYTES = 68
LIMIT_BYTES = 128 << 10


class Group(NamedTuple):
    """Data that was written to a journal together."""

    number: int
    needed_from: int
    path: Path
    position: int


def groups(directory: Path) -> list[Group]:
    """Return the groups that a start needs, in order."""
    found = []
    for path in directory.glob("journal.*"):
        content = path.read_bytes()
        for position in range(0, len(content), BLOCK_BYTES):
            if content.startswith(MAGIC, position):
                number, floor = struct.unpack_from("<Q8xQ", content, position + len(MAGIC) + 16)
                found.append(Group(number, floor, path, position))
    floor = max(group.needed_from for group in found)
    return sorted(group for group in found if group.number >= floor)


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x40]))


def send_each(broker: BrokerProcess, sent: dict[int, Sent], value: bytes) -> None:
    """Send one record to each partition, one after the other."""
    for partition, before in sent.items():
        more = send(broker, "t", partition, [value])
        assert not more.refused
        before.acknowledged.update(more.acknowledged)


def metric(broker: BrokerProcess, name: str) -> float:
    with urllib.request.urlopen(f"http://{broker.settings['metrics.listener']}/metrics", timeout=60) as answer:
        (value,) = re.findall(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(value)


@pytest.mark.checklist("C10")
def test_the_disk_is_full_in_the_middle_of_the_journal(
    make_disk: MakeDisk, start_broker: StartBroker, tmp_path: Path
) -> None:
    """Segments have free space in their last blocks, but the journal cannot grow. The broker continues without it and
    refuses nothing. Then the power is cut."""
    if not can_mount():
        pytest.skip("takes a disk of its own")
    disk = make_disk(48)
    directory = disk.path / "data"
    listener = f"127.0.0.1:{free_port()}"
    broker = start_broker({"log.dirs": f"{tmp_path / 'first'},{directory}", "metrics.listener": listener})
    create(broker, "t", 60)
    sent = {partition: Sent() for partition in range(60) if (directory / f"t-{partition}").exists()}
    send_each(broker, sent, b"first")
    send_each(broker, sent, b"second")
    assert metric(broker, "pybroker_journal_entries_total") > 0
    disk.fill()
    for number in range(25):
        send_each(broker, sent, b"%d" % number)
        if metric(broker, "pybroker_journal_full_total") > 0:
            break
    else:
        pytest.fail("the journal has found room")
    send_each(broker, sent, b"last")
    os.kill(broker.pid, signal.SIGKILL)
    disk.cut()
    broker.kill()
    disk.reboot()
    disk.free()
    broker.start()
    for partition, each in sent.items():
        assert not missing(each.acknowledged, read(broker, "t", partition))
    send_each(broker, sent, b"again")
    broker.stop()
    assert not list(directory.glob("journal.*"))


@pytest.mark.checklist("C10")
def test_a_write_to_the_journal_finds_no_room(start_broker: StartBroker) -> None:
    """File systems that write to new blocks, and limits, affect existing blocks: the only log directory stays in
    service, and segments are synced one by one."""
    listener = f"127.0.0.1:{free_port()}"
    broker = start_broker({"metrics.listener": listener})
    create(broker, "t", 2)
    sent = {0: Sent(), 1: Sent()}
    while metric(broker, "pybroker_journal_bytes_total") < 2 * LIMIT_BYTES:
        send_each(broker, sent, b"x" * 100)
    limit_files(broker, LIMIT_BYTES)
    while metric(broker, "pybroker_journal_full_total") == 0:
        send_each(broker, sent, b"y" * 100)
    limit_files(broker, resource.RLIM_INFINITY)
    send_each(broker, sent, b"again")
    broker.kill()
    broker.start()
    for partition, each in sent.items():
        assert not missing(each.acknowledged, read(broker, "t", partition))


@pytest.mark.checklist("C12")
def test_a_damaged_journal_is_kept_and_its_directory_stays_offline(start_broker: StartBroker, tmp_path: Path) -> None:
    """Acknowledged records may be missing: the broker must not write over the rest. The other directory continues."""
    first, second = tmp_path / "first", tmp_path / "second"
    broker = start_broker({"log.dirs": f"{first},{second}"})
    create(broker, "t", 2)
    sent = {0: Sent(), 1: Sent()}
    hurt, well = (0, 1) if (second / "t-0").exists() else (1, 0)
    while True:
        for number in range(5):
            send_each(broker, sent, b"%d" % number)
        broker.kill()
        needed = groups(second)
        if len(needed) > 2:
            break
        broker.start()
    torn = needed[-2]
    flip(torn.path, torn.position + HEADER_BYTES + 3)
    before = {path: path.read_bytes() for path in second.glob("journal.*")}
    broker.start()
    said = [line for line in broker.console.read_text().splitlines() if "cannot replay" in line]
    assert len(said) == 1, broker.log_tail()
    assert str(torn.path) in said[0]
    assert f"the first is {torn.number})" in said[0]
    assert f"t-{hurt}" in said[0]
    assert not missing(sent[well].acknowledged, read(broker, "t", well))
    assert not send(broker, "t", hurt, [b"x"], **{"message.timeout.ms": 2000}).acknowledged
    broker.stop()
    assert {path: path.read_bytes() for path in second.glob("journal.*")} == before, "kept"
    flip(torn.path, torn.position + HEADER_BYTES + 3)
    broker.start()
    for partition, each in sent.items():
        assert not missing(each.acknowledged, read(broker, "t", partition))
    send_each(broker, sent, b"again")
