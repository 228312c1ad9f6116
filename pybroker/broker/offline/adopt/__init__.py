"""`pybroker adopt`: takes over an Apache Kafka data directory while nobody runs on it."""
