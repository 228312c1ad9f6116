"""The releases of client libraries that the common list of tests runs on besides those of `make test`.

`make test-client-releases` runs it; `docs/clients.md` has the table. The files in `locks/` pin the dependencies of each
release by hashes:
- `.lock`, Python: `echo NAME==VERSION | uv pip compile --universal --python-version 3.11 --generate-hashes -`, as in
  `make lock`. The codecs are those of `tests/requirements.lock`.
- `.mod` and `.sum`, Go: go.mod and go.sum of `go/` after `go get MODULE@VERSION` and `go mod tidy`.
- `.sha256`, Java: sha256sum of the jars that `tests.support.maven.jars` fetches.
- `.json`, kafkajs: its entry in package-lock.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.api import ALL_ACKS, Client
from tests.clients.driver import HERE, DrivenClient
from tests.clients.python_driver import ADAPTERS
from tests.support import go, java, maven, node, venv

LOCKS = HERE / "locks"
TESTS = HERE.parent
REPOSITORY = TESTS.parent
CODECS = ("cramjam", "lz4", "python-snappy", "zstandard")


@dataclass(frozen=True)
class Release:
    """One release of one family.

    lacks: `tests.clients.api.Client.lacks`. tags and renamed: `tests.support.go.built_with`.
    """

    family: str
    version: str
    lacks: frozenset[str] = frozenset()
    tags: str = ""
    renamed: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.family}-{self.version}"

    def lock(self, ending: str) -> Path:
        """Return the path of a file in `locks/`."""
        return LOCKS / f"{self}.{ending}"

    def command(self) -> list[str]:
        """Return the driver's command line without the broker's address; fetch and build the driver if necessary."""
        return _COMMANDS[self.family](self)

    def missing(self) -> str:
        """Return the tools that this machine lacks; empty if there are none."""
        return f"{self} needs {venv.PYTHON}" if self.family in ADAPTERS and venv.interpreter() is None else ""

    def connect(self, bootstrap: str) -> Client:
        """Return a client in a separate process."""
        return ReleasedClient(self, bootstrap)


class ReleasedClient(DrivenClient):
    """A client library of another release, in a separate process."""

    def __init__(self, release: Release, bootstrap: str) -> None:
        self.name, self.lacks = release.family, release.lacks
        super().__init__([*release.command(), bootstrap], REPOSITORY)


def _python(release: Release) -> list[str]:
    codecs: Sequence[str] = () if release.family == "confluent-kafka" else CODECS
    python = venv.with_packages(str(release), release.lock("lock"), TESTS / "requirements.lock", codecs)
    return [str(python), "-m", "tests.clients.python_driver", release.family]


def _java(release: Release) -> list[str]:
    libraries = maven.jars(maven.clients(release.version), release.lock("sha256").read_text())
    return java.java_command(java.compiled(HERE / "java" / "ClientDriver.java", libraries), "ClientDriver", [])


def _go(release: Release) -> list[str]:
    program = go.built_with(HERE / "go", LOCKS / str(release), release.tags, dict(release.renamed))
    return [str(program), release.family.removesuffix("-go")]


def _kafkajs(release: Release) -> list[str]:
    program = node.installed(node.KAFKAJS / "driver.js", node.KAFKAJS, release.lock("json"))
    return [str(node.NODE), str(program)]


_COMMANDS: dict[str, Callable[[Release], list[str]]] = {
    **dict.fromkeys(ADAPTERS, _python),
    "java": _java,
    "franz-go": _go,
    "sarama": _go,
    "kafkajs": _kafkajs,
}

_OLD_GROUPS = "without_newer_groups"
# Of each family, the oldest release comes first: the oldest one with everything that its driver needs, including a
# wheel if it needs one.
RELEASES = (
    Release("confluent-kafka", "2.0.2"),
    Release("confluent-kafka", "2.8.2"),
    Release("kafka-python", "1.4.7", frozenset({str(ALL_ACKS[-1]), "zstd"})),
    Release("kafka-python", "2.0.2", frozenset({str(ALL_ACKS[-1])})),
    # This release loses records with acks=0, on Apache Kafka, too.
    Release("kafka-python", "2.2.21", frozenset({str(ALL_ACKS[0])})),
    # In releases from 3.0.0 to 3.0.11, ListOffsets has replica id 0.
    Release("kafka-python", "3.0.0"),
    Release("kafka-python", "3.0.11"),
    Release("aiokafka", "0.8.0"),
    Release("aiokafka", "0.11.0"),
    # Releases before 2.1 use versions of requests that Kafka 4 has dropped (KIP-896).
    Release("java", "2.1.1"),
    Release("java", "2.8.2"),
    Release("java", "3.9.2"),
    Release("franz-go", "1.15.3", tags=_OLD_GROUPS),
    Release("franz-go", "1.18.1", tags=_OLD_GROUPS),
    Release("sarama", "1.30.0", renamed=(("github.com/IBM/sarama", "github.com/Shopify/sarama"),)),
    Release("sarama", "1.43.3"),
    Release("kafkajs", "1.16.0"),
    Release("kafkajs", "2.0.2"),
)


def newest() -> dict[str, str]:
    """Return the release of each family that `make test` uses, from the pins of the tests."""
    python = "".join((TESTS / name).read_text() for name in ("requirements.run.lock", "requirements.lock"))
    locked = dict(re.findall(r"^(\S+)==(\S+)", python, re.MULTILINE))
    named = dict(re.findall(r"^\t\S+/(\S+) v(\S+)$", (HERE / "go" / "go.mod").read_text(), re.MULTILINE))
    packages = json.loads((node.KAFKAJS / "package.json").read_text())["dependencies"]
    return {
        **{family: locked[family] for family in ADAPTERS},
        "java": maven.KAFKA_VERSION,
        "franz-go": named["franz-go"],
        "sarama": named["sarama"],
        "kafkajs": packages["kafkajs"],
    }


def main() -> None:
    """Fetch and build all releases; quick if that is done already."""
    for release in RELEASES:
        if missing := release.missing():
            print(f"Left out: {missing}")
        else:
            release.command()


if __name__ == "__main__":
    main()
