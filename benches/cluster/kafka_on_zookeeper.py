"""The last Apache Kafka on ZooKeeper: one broker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from benches.compare.peers import KAFKA_JVM
from tests.support.brokers import BrokerProcess
from tests.support.java import java_tool
from tests.support.maven import BROKER_ON_ZOOKEEPER, jars


class KafkaOnZooKeeper(BrokerProcess):
    """Apache Kafka 3.9 with the JVM settings of its start script."""

    name = "Apache Kafka on ZooKeeper"
    clean_exit_codes = frozenset({0, 143})

    def __init__(self, folder: Path, broker_id: int, connect: str, settings: Mapping[str, str]) -> None:
        """`connect` is the value of `zookeeper.connect`."""
        super().__init__(folder)
        self.settings |= {
            "broker.id": str(broker_id),
            "zookeeper.connect": connect,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data_dir),
            **settings,
        }

    def command(self) -> list[str]:
        file = self.folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        self._logging.write_text(
            "log4j.rootLogger=WARN, c\nlog4j.appender.c=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.c.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.c.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        )
        class_path = f"{jars(BROKER_ON_ZOOKEEPER)}/*"
        return [java_tool("java"), *KAFKA_JVM, "-cp", class_path, "kafka.Kafka", str(file)]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "JDK_JAVA_OPTIONS": f"-Dlog4j.configuration=file:{self._logging}"}

    @property
    def _logging(self) -> Path:
        return self.folder / "log4j.properties"
