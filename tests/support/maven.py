"""Java libraries from Maven Central, with pinned versions."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape

from pybroker.testing.download_cache import built_once
from pybroker.testing.maven import compare_checksums, copy_dependencies

KAFKA_VERSION = "4.4.0"
# The latest release of kafka-tools whose dependencies are all in Maven Central: for 4.4.0, kafka-tools-api is missing.
KAFKA_TOOLS_VERSION = "4.3.1"

# Each set: (group:artifact:version[:classifier], artifacts to exclude).
BROKER = (
    # Contains only DumpLogSegments' plug-in interface; the broker does not load it, and its 4.4.0 is not in Maven
    # Central.
    (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", ("org.apache.kafka:kafka-tools-api",)),
    ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.5", ()),
)
# The last Kafka release that supports ZooKeeper.
BROKER_ON_ZOOKEEPER = (
    ("org.apache.kafka:kafka_2.13:3.9.1", ()),
    ("org.slf4j:slf4j-reload4j:1.7.36", ()),
)
CLIENTS = (
    (f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}", ()),
    ("com.fasterxml.jackson.core:jackson-databind:2.21.2", ()),
    ("org.slf4j:slf4j-nop:1.7.36", ()),
)
TOOLS = (
    (f"org.apache.kafka:kafka-tools:{KAFKA_TOOLS_VERSION}", ()),
    # kafka-configs is part of the broker's artifact.
    (f"org.apache.kafka:kafka_2.13:{KAFKA_TOOLS_VERSION}", ()),
    ("org.slf4j:slf4j-nop:1.7.36", ()),
)
QUORUM_TOOLS = (
    # kafka-cluster and kafka-metadata-quorum of 4.4; the artifact that is missing has only DumpLogSegments' plug-in
    # interface.
    (f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}", ("org.apache.kafka:kafka-tools-api",)),
    ("org.slf4j:slf4j-nop:1.7.36", ()),
)
STREAMS = (
    # The latest release whose tests are in Maven Central; they are programs with a main class.
    ("org.apache.kafka:kafka-streams:4.0.2", ()),
    ("org.apache.kafka:kafka-streams:4.0.2:test", ()),
    ("org.apache.kafka:kafka-clients:4.0.2:test", ()),
    ("org.slf4j:slf4j-simple:1.7.36", ()),
)
STREAMS_LIBRARY = (
    # For applications in this repository, with the protocol of streams groups in Kafka 4.4.
    (f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", ()),
    ("org.slf4j:slf4j-simple:1.7.36", ()),
)
Libraries = tuple[tuple[str, tuple[str, ...]], ...]


def _pom(libraries: Libraries) -> str:
    def coordinates(name: str) -> str:
        fields = zip(("groupId", "artifactId", "version", "classifier"), name.split(":"), strict=False)
        return "".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in fields)

    dependencies = []
    for name, left_out in libraries:
        exclusions = "".join(f"<exclusion>{coordinates(each)}</exclusion>" for each in left_out)
        dependencies.append(f"<dependency>{coordinates(name)}<exclusions>{exclusions}</exclusions></dependency>")
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tests</groupId><artifactId>tests</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>"
    )


def clients(version: str) -> Libraries:
    """Return the libraries for `tests/clients/java` with a release of kafka-clients."""
    return ((f"org.apache.kafka:kafka-clients:{version}", ()), *CLIENTS[1:])


def jars(libraries: Libraries, checksums: str = "") -> Path:
    """Return a folder with the jars of `libraries` and all their run-time dependencies.

    checksums: lines in sha256sum's format, one per jar. Other jars raise DownloadError.
    """
    pom = _pom(libraries)

    def build(folder: Path) -> None:
        with TemporaryDirectory() as temporary:
            path = Path(temporary, "pom.xml")
            path.write_text(pom)
            copy_dependencies(path, folder)
        if checksums:
            compare_checksums(folder, checksums)

    return built_once("jars", [pom, checksums] if checksums else [pom], build)
