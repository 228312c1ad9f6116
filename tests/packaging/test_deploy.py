"""The files for users in deploy/: they name existing files, match each other, and the processes that they start work.

`make deploy-check` runs their linters. No container engine, Kubernetes or systemd runs here: these tests do not cover
images, networks and the sandbox.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pybroker.config import load_config
from tests.support.wire import answers_metadata, free_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "pybroker.yaml").read_text()))
LIMIT_S = 120.0
ADVERTISED = "advertised.listeners=CLIENTS://a:9092,BROKERS://a:9094"


def instruction(name: str) -> list[str]:
    """Return the arguments of the last instruction of this name, in its JSON form."""
    found = re.findall(rf"^{name} .*?(\[.*\])$", DOCKERFILE, re.MULTILINE)
    return list(json.loads(found[-1]))


def kind(name: str) -> dict[str, Any]:
    return next(each for each in MANIFESTS if each["kind"] == name)


@contextmanager
def running(
    arguments: Sequence[str], port: int, *settings: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`pybroker` with these arguments and settings until the block ends; it answers at the port."""
    command = [sys.executable, "-m", "pybroker", *arguments, *(part for each in settings for part in ("--set", each))]
    with subprocess.Popen(command, env={**os.environ, **(environment or {})}) as process:
        try:
            give_up = time.monotonic() + LIMIT_S
            while not answers_metadata(port):
                assert process.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.05)
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()


def test_the_command_of_the_image_serves_and_its_check_sees_it(tmp_path: Path) -> None:
    assert instruction("ENTRYPOINT") == ["pybroker"]
    assert instruction("HEALTHCHECK") == ["pybroker-healthcheck"]
    given = str(DEPLOY / "docker" / "server.properties")
    command = [given if each == "/etc/pybroker/server.properties" else each for each in instruction("CMD")]
    assert given in command
    port, metrics = free_port(), free_port()
    check = [sys.executable, DEPLOY / "docker" / "healthcheck.py"]
    there = {**os.environ, "PYBROKER_READY_URL": f"http://127.0.0.1:{metrics}/readyz"}
    assert subprocess.run(check, env=there, capture_output=True, check=False).returncode == 1
    here = (f"listeners=CLIENTS://127.0.0.1:{port}", f"log.dirs={tmp_path}", f"metrics.listener=127.0.0.1:{metrics}")
    with running(command, port, *here):
        assert subprocess.run(check, env=there, check=False).returncode == 0


def test_the_image_has_what_settings_of_a_broker_may_need() -> None:
    """Only this project can publish the names that `pip install` is told to use."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (installed,) = re.findall(r"\$\{wheel\}\[([\w,]+)\]", DOCKERFILE)
    assert set(installed.split(",")) == set(extras) - {"bench", "spark"}


def test_the_image_runs_as_nobody_and_copies_what_is_there() -> None:
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)[-1] == "10001:10001"
    copied = re.findall(r"^COPY (?:--chmod=\d+ )?(deploy/\S+)", DOCKERFILE, re.MULTILINE)
    assert len(copied) == 2
    assert [each for each in copied if not (ROOT / each).is_file()] == []
    allowed = re.findall(r"^!(.*)$", (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert [each for each in allowed if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("*/*.properties")), ids=lambda file: file.name)
def test_settings_are_known(file: Path) -> None:
    warnings = load_config(file, ["advertised.listeners=CLIENTS://broker:9092"]).warnings
    assert [each for each in warnings if "without authentication" not in each] == []


def test_the_brokers_of_the_compose_file_are_a_cluster(tmp_path: Path) -> None:
    services = {name: each for name, each in COMPOSE["services"].items() if name.startswith("broker-")}
    assert len(services) == 3
    own = str(DEPLOY / "compose" / "cluster.properties")
    voters = dict(part.split("@") for part in load_config(Path(own), [ADVERTISED]).config["controller.quorum.voters"])
    assert voters == {name.removeprefix("broker-"): f"{name}:9094" for name in services}
    between_ports = {name: free_port() for name in services}
    reached = ",".join(f"{name[-1]}@127.0.0.1:{port}" for name, port in between_ports.items())
    with ExitStack() as opened:
        ports = []
        for name, service in services.items():
            command = [own if each.startswith("/etc/pybroker/") else each for each in service["command"]]
            assert f"node.id={name.removeprefix('broker-')}" in command
            port, inside, metrics = (free_port() for _ in range(3))
            between = between_ports[name]
            ports.append(port)
            told = re.sub(r"broker-\d", "127.0.0.1", next(each for each in command if each.startswith("advertised.")))
            for listener, mine in (("CLIENTS", port), ("INSIDE", inside), ("BROKERS", between)):
                told = re.sub(rf"{listener}://127.0.0.1:\d+", f"{listener}://127.0.0.1:{mine}", told)
            listening = f"CLIENTS://127.0.0.1:{port},INSIDE://127.0.0.1:{inside},BROKERS://127.0.0.1:{between}"
            here = (f"listeners={listening}", told, f"metrics.listener=127.0.0.1:{metrics}")
            there = (f"controller.quorum.voters={reached}", f"log.dirs={tmp_path / name}")
            # The second and third broker start when the first one has founded the cluster.
            opened.enter_context(running(command, port, *here, *there))
        ask = [sys.executable, "-m", "pybroker", "topics", "create", "orders", "--json"]
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        done = subprocess.run([*ask, "--bootstrap-server", bootstrap], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        ask = [sys.executable, "-m", "pybroker", "topics", "describe", "orders", "--json"]
        (topic,) = json.loads(subprocess.check_output([*ask, "--bootstrap-server", bootstrap]))
        assert [sorted(each["replicas"]) for each in topic["partitions"]] == [[1, 2, 3]] * 3


def test_the_compose_file_mounts_what_is_there() -> None:
    for name, service in COMPOSE["services"].items():
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / "compose" / source).exists(), (name, mount)
            elif not source.startswith("."):
                assert source in COMPOSE["volumes"], (name, mount)
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nobody logs in: this machine only"
    scraped = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    wanted = {f"{name}:9308" for name in COMPOSE["services"] if name.startswith("broker-")}
    assert set(job["static_configs"][0]["targets"]) == wanted


def test_the_service_starts_a_broker(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd" / "pybroker.service").read_text()
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *arguments = shlex.split(start)
    assert program.endswith("/bin/pybroker")
    settings, port = tmp_path / "server.properties", free_port()
    settings.write_text(f"log.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://127.0.0.1:{port}\n")
    given = [str(settings) if each == "/etc/pybroker/server.properties" else each for each in arguments]
    assert str(settings) in given
    assert "\nType=notify\n" in unit
    states = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service_manager:
        service_manager.bind(str(states))
        service_manager.settimeout(LIMIT_S)
        with running(given, port, environment={"NOTIFY_SOCKET": str(states)}):
            assert service_manager.recv(64) == b"READY=1"
        assert service_manager.recv(64) == b"STOPPING=1"
    stop_s = int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0])
    assert stop_s * 1000 > load_config().config.get_int("shutdown.timeout.ms")


def test_the_manifests_fit_each_other(tmp_path: Path) -> None:
    text = kind("ConfigMap")["data"]["server.properties"]
    (tmp_path / "server.properties").write_text(text)
    config = load_config(tmp_path / "server.properties", [ADVERTISED, "controller.quorum.voters=1@a:9094"]).config
    pod = kind("StatefulSet")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert {each.port for each in config.listeners} | {9308} == set(ports.values())
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}
    mounts = {each["name"] for each in container["volumeMounts"]}
    claims = {each["metadata"]["name"] for each in kind("StatefulSet")["spec"]["volumeClaimTemplates"]}
    assert mounts == claims | {each["name"] for each in pod["spec"]["volumes"]}
    labels = pod["metadata"]["labels"]
    for each in MANIFESTS:
        selector = each.get("spec", {}).get("selector", {})
        assert selector.get("matchLabels", selector).items() <= labels.items()
    assert kind("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert pod["spec"]["terminationGracePeriodSeconds"] * 1000 > config.get_int("shutdown.timeout.ms")


def test_a_pod_says_who_it_is(tmp_path: Path) -> None:
    """The shell line of the StatefulSet runs with a command in place of pybroker, which writes its arguments."""
    (container,) = kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    fake = tmp_path / "pybroker"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOSTNAME": "pybroker-2", "NAMESPACE": "data"}
    assert [each["name"] for each in container["env"]] == ["NAMESPACE"]
    told = subprocess.check_output([*container["command"], *container["args"]], env=environment, text=True).split()
    assert "node.id=3" in told
    # These names resolve in every namespace of the cluster.
    host = "pybroker-2.pybroker.data.svc"
    assert f"advertised.listeners=CLIENTS://{host}:9092,BROKERS://{host}:9094" in told
    voters = ",".join(f"{number + 1}@pybroker-{number}.pybroker.data.svc:9094" for number in range(3))
    assert f"controller.quorum.voters={voters}" in told


@pytest.mark.parametrize("file", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda file: file.name)
def test_workflows_call_what_is_there_and_may_do_little(file: Path) -> None:
    text = file.read_text()
    targets = {each for line in re.findall(r"make ([a-z -]+)$", text, re.MULTILINE) for each in line.split()}
    there = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets <= there
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
