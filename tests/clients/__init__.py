"""Tests of the product with clients of other projects. All of them also pass against Apache Kafka (`--broker=kafka`),
and against three brokers of pybroker (`--broker=cluster`)."""
