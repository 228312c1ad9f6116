"""The product, driven by clients that are not ours. Every test here passes against Apache Kafka too: `--broker=kafka`."""
