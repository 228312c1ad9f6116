"""`pybroker.Broker` and the pytest fixtures: a broker's life from a test's point of view."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import pybroker
from pybroker.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.wire import answers_metadata
from tests.wire.client import WireClient

pytest_plugins = "pytester"
LIMIT_S = 120.0


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state = done.stdout.strip()
    return bool(state) and not state.startswith("Z")


def gone(pid: int) -> bool:
    give_up = time.monotonic() + LIMIT_S
    while alive(pid):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def test_life_of_a_broker() -> None:
    with pybroker.Broker({"num.partitions": 3}) as broker:
        assert broker.running
        assert answers_metadata(broker.port)
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        assert len(broker.cluster_id) == 22
        assert "pybroker is ready" in broker.log_path.read_text()
        data, pid, port, cluster_id = broker.data_dir, broker.pid, broker.port, broker.cluster_id
        broker.restart()
        assert (broker.port, broker.cluster_id) == (port, cluster_id)
        assert broker.pid != pid
        broker.restart(crash=True)
        assert (broker.port, broker.cluster_id) == (port, cluster_id)
        assert answers_metadata(port)
        assert broker.stop() == 0
        assert not broker.running
        broker.start()
        assert broker.kill() == -signal.SIGKILL
        assert broker.kill() == 0, "killing a dead broker does no harm"
        assert data.exists()
    assert not data.parent.exists()


def test_two_brokers_do_not_meet() -> None:
    with pybroker.Broker() as one, pybroker.Broker() as other:
        assert one.port != other.port
        assert one.cluster_id != other.cluster_id


def test_data_directory_of_the_callers_own(tmp_path: Path) -> None:
    with pybroker.Broker(data_dir=tmp_path / "data") as broker:
        cluster_id = broker.cluster_id
    with pybroker.Broker(data_dir=tmp_path / "data") as broker:
        assert broker.cluster_id == cluster_id


async def test_async_context() -> None:
    async with pybroker.Broker() as broker:
        assert await asyncio.to_thread(answers_metadata, broker.port)


def test_what_keeps_it_from_starting_is_told(tmp_path: Path) -> None:
    broker = pybroker.Broker({"num.partition": 3}, data_dir=tmp_path / "data")
    with pytest.raises(pybroker.BrokerProcessError, match=r"did you mean num\.partitions\?"):
        broker.start()
    assert not broker.running


def test_passwords_are_not_shown_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The passwords are not on the command line, which every user of the machine can read, and are in no file once the
    broker runs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    modes: list[int] = []
    popen = subprocess.Popen

    def watched(command: list[str], **options: Any) -> Any:
        modes.append(Path(command[command.index("--config") + 1]).stat().st_mode & 0o777)
        return popen(command, **options)

    monkeypatch.setattr("pybroker.testing.broker.subprocess.Popen", watched)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} required user_ann="= s3cr\\\\et #\\"é";',
    }
    with pybroker.Broker(settings, data_dir=tmp_path / "data") as broker:
        monkeypatch.undo()
        ps = ["ps", "-o", "args=", "-ww", "-p", str(broker.pid)]
        shown = subprocess.run(ps, capture_output=True, text=True, check=True)
        assert "log.dirs" in shown.stdout
        assert "s3cr" not in shown.stdout
        assert modes == [0o600]
        assert list((tmp_path / "temporary").iterdir()) == []
        with WireClient(broker.port) as client:
            assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            token = '\0ann\0= s3cr\\et #"é'.encode()
            answer = client.call(SaslAuthenticateRequest(auth_bytes=token), 2)
            assert answer.error_code == 0, answer.error_message


def test_misuse_is_told() -> None:
    broker = pybroker.Broker()
    with pytest.raises(pybroker.BrokerProcessError, match="never started"):
        _ = broker.bootstrap
    with pytest.raises(pybroker.BrokerProcessError, match="not running"):
        _ = broker.pid
    broker.close()


def test_it_outlives_the_thread_that_started_it() -> None:
    broker = pybroker.Broker()
    thread = threading.Thread(target=broker.start)
    thread.start()
    thread.join()
    try:
        assert answers_metadata(broker.port)
        assert broker.running
    finally:
        broker.close()


PARENT = """
import pybroker, sys, time
broker = pybroker.Broker().start()
print(broker.pid, flush=True)
if sys.argv[1] == "fork":
    import os
    if os.fork() == 0:
        time.sleep(600)
if sys.argv[1] != "return":
    time.sleep(600)
"""


@pytest.mark.checklist("R25", "U14")
@pytest.mark.parametrize("how", ["kill", "fork", "return"])
def test_it_ends_with_its_parent(how: str, tmp_path: Path) -> None:
    """The parent is killed by kill -9, also if its forked child keeps its files open; or it drops the broker object."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, how],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # the parent that would remove them was killed
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if how != "return":
            assert alive(pid)
            parent.kill()
        parent.wait(LIMIT_S)
        assert gone(pid)
    finally:
        if how == "fork":
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_broker_needs_no_pytest() -> None:
    """`pip install pybroker` does not install pytest."""
    script = "import sys; sys.modules['pytest'] = None; import pybroker; print(pybroker.Broker.__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.stdout, done.stderr) == ("Broker\n", "")


@pytest.mark.checklist("U14")
def test_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pybroker.client import NewTopic, TopicCollection, blocking

        def partitions(broker):
            with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
                admin.create_topics([NewTopic("t")]).all()
                described = admin.describe_topics(TopicCollection.of_topic_names(["t"])).all()
                return len(described["t"].partitions)

        def test_own(pybroker):
            assert partitions(pybroker) == 1

        @pytest.mark.pybroker({"broker.rack": "here", "num.partitions": 3})
        def test_settings(pybroker):
            assert partitions(pybroker) == 3

        ports = set()

        def test_shared_1(pybroker_session):
            ports.add(pybroker_session.port)

        def test_shared_2(pybroker_session, pybroker):
            ports.add(pybroker_session.port)
            assert len(ports) == 1
            assert pybroker.port not in ports

        def test_failing(pybroker):
            assert False
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*pybroker log*", "pybroker is ready: *"])
