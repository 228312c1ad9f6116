"""The product, driven by clients of other projects. All tests also pass against Apache Kafka (`--broker=kafka`), and
against three brokers of pybroker (`--broker=cluster`)."""
