"""`pybroker diagnose`: the contents of the archive for a running broker, a stopped one, and a cluster; it has no
secrets."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker.broker.observability.diagnosis.diagnosis_socket import FILE_NAME, ask
from pybroker.cli import cli
from pybroker.testing.child_processes import free_port
from tests.support.brokers import PybrokerProcess
from tests.support.certificates import Authority
from tests.support.cluster import until

LIMIT_S = 120.0
CERTIFICATE = "-----BEGIN CERTIFICATE"


def diagnose(output: Path, *arguments: object) -> dict[str, str]:
    """Return name → text of every part, without the folder."""
    done = subprocess.run(
        [sys.executable, "-m", "pybroker", "diagnose", "--json", "--output", output, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=output.parent,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    with tarfile.open(output) as tar:
        parts = {}
        for entry in tar.getmembers():
            stream = tar.extractfile(entry)
            assert stream is not None
            parts[entry.name.removeprefix("report/")] = stream.read().decode()
    assert set(parts) == {*said["parts"], "README.txt"}
    for part, why in said["missing"].items():
        assert f"{part}: {why}" in parts["README.txt"]
    return parts


class Secrets:
    """A broker with one secret of each kind."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "server.properties"
        self.client = directory / "client.properties"
        key, begin, chain = Authority(directory / "tls").identity("diagnosed").read_text().partition(CERTIFICATE)
        self.key_line = key.splitlines()[1]
        key, chain = (text.strip().replace("\n", "\\n") for text in (key, begin + chain))
        self.port, self.metrics = free_port(), free_port()
        self.file.write_text(
            f"log.dirs={directory / 'data'}\nlisteners=SASL://127.0.0.1:{self.port},TLS://127.0.0.1:0\n"
            "listener.security.protocol.map=SASL:SASL_PLAINTEXT,TLS:SSL\n"
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n"
            "listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
            'required user_root="plain-secret-1" user_other="plain-secret-2";\n'
            f"listener.name.tls.ssl.keystore.type=PEM\nlistener.name.tls.ssl.keystore.key={key}\n"
            f"listener.name.tls.ssl.keystore.certificate.chain={chain}\n"
            "delegation.token.secret.key=token-secret-key\nlog.level=DEBUG\n"
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:root\n"
            f"metrics.listener=127.0.0.1:{self.metrics}\n"
        )
        self.client.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=root\nsasl.password=plain-secret-1\n"
        )

    def all(self) -> list[str]:
        return ["plain-secret-1", "plain-secret-2", "token-secret-key", "scram-secret", "stored_key", self.key_line]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return Secrets(tmp_path_factory.mktemp("secrets"))


def administer(secrets: Secrets, *arguments: str, stdin: str = "") -> str:
    online = ("--bootstrap-server", f"127.0.0.1:{secrets.port}", "--command-config", str(secrets.client))
    done = CliRunner().invoke(cli, [*arguments, *online], input=stdin)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_no_secret_is_in_it(secrets: Secrets, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pybroker", "start", "--config", secrets.file],
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "broker.log").open("w"),
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline(), (tmp_path / "broker.log").read_text()
        administer(secrets, "users", "add", "alice", "--password-file", "-", stdin="scram-secret\n")
        administer(secrets, "topics", "create", "orders")
        log = tmp_path / "elsewhere.log"
        log.write_text('a line with plain-secret-2 and https://me:in-an-url@host/ and "token-secret-key"\n')
        parts = diagnose(
            tmp_path / "report.tar.gz",
            *("--config", secrets.file, "--log", log, "--bootstrap-server", f"127.0.0.1:{secrets.port}"),
            *("--command-config", secrets.client),
        )
    finally:
        process.terminate()
        process.wait(LIMIT_S)
    everything = "\n".join(parts.values())
    for secret in (*secrets.all(), "in-an-url"):
        assert secret not in everything, secret
    settings = json.loads(parts["settings.json"])
    assert settings["delegation.token.secret.key"]["value"] == "[hidden]"
    assert settings["listener.name.sasl.plain.sasl.jaas.config"]["value"] == "[hidden]"
    assert settings["listener.name.tls.ssl.keystore.type"]["value"] == "PEM"
    assert settings["log.level"] == {"value": "DEBUG", "source": "STATIC_BROKER_CONFIG"}
    nodes = json.loads(parts["metadata.json"])["nodes"]
    assert set(nodes["/config/users/alice"]["value"]["config"].values()) == {"[hidden]"}
    assert "/brokers/topics/orders" in nodes
    assert not [path for path in nodes if "token" in path]
    assert "Missing" not in parts["README.txt"]
    assert "orders" in parts["cluster/topics.json"]

    stopped = diagnose(tmp_path / "report.tgz", "--config", secrets.file)
    for secret in secrets.all():
        assert secret not in "\n".join(stopped.values()), secret
    assert "/brokers/topics/orders" in json.loads(stopped["metadata.json"])["nodes"]
    assert "threads/python.txt" not in stopped
    assert "orders-0/partition.metadata" in stopped["disks/0-files.txt"]
    assert "topic_id" in stopped["disks/0-checkpoints.txt"]


@pytest.fixture
def broker(tmp_path: Path) -> PybrokerProcess:
    """A broker with a directory whose path is too long for a socket's address."""
    return PybrokerProcess(tmp_path / ("deep" * 30))


def test_of_a_broker_that_runs(broker: PybrokerProcess, tmp_path: Path) -> None:
    broker.start()
    try:
        directory = broker.data_dir
        until((directory / FILE_NAME).exists)
        assert stat.S_IMODE((directory / FILE_NAME).stat().st_mode) == 0o600
        parts = diagnose(tmp_path / "report.tar.gz", "--set", f"log.dirs={directory}")
        assert "Thread MainThread" in parts["threads/python.txt"]
        assert "controller" in parts["threads/tasks.txt"]
        assert "kafka_server_brokertopicmetrics_bytesin_total" in parts["metrics.txt"]
        assert "Cluster ID" in parts["log.txt"]
        assert json.loads(parts["broker.json"])["pid"] == broker.pid
        assert json.loads(parts["disks/0.json"])["in_use"]
        assert json.loads(parts["machine.json"])["python"] == sys.version
        if sys.platform == "linux":
            assert "data-0" in parts["threads/kernel.txt"]
        broker.stop()
    finally:
        broker.end()
    assert not (directory / FILE_NAME).exists()


def test_of_a_broker_that_was_killed(broker: PybrokerProcess, tmp_path: Path) -> None:
    """The killed broker's socket file remains, and the next broker replaces it."""
    broker.start()
    directory = broker.data_dir
    until((directory / FILE_NAME).exists)
    broker.kill()
    parts = diagnose(tmp_path / "report.tar.gz", "--set", f"log.dirs={directory}")
    assert json.loads(parts["broker.json"])["pid"] is None
    assert "/cluster/id" in json.loads(parts["metadata.json"])["nodes"]
    broker.start()
    try:
        until(lambda: ask(directory) is not None)
        report = ask(directory)
        assert report is not None
        assert report["pid"] == broker.pid
    finally:
        broker.end()


def test_settings_that_cannot_be_used(tmp_path: Path) -> None:
    parts = diagnose(tmp_path / "report.tar.gz", "--set", "log.dris=/data")
    assert "broker: the settings are invalid: log.dris" in parts["README.txt"]
    assert json.loads(parts["doctor.json"])[0]["state"] == "bad"


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    there = tmp_path / "report.tar.gz"
    there.write_text("mine")
    done = CliRunner().invoke(cli, ["diagnose", "--output", str(there), "--set", f"log.dirs={tmp_path / 'data'}"])
    assert done.exit_code == 1
    assert "report.tar.gz" in done.stderr
    assert there.read_text() == "mine"
    assert not (tmp_path / "data").exists(), "it changes nothing"
