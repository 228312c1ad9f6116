"""The product, driven by clients that are not ours. All of it passes against Apache Kafka too: `--broker=kafka`."""
