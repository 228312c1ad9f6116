"""`pybroker adopt`: takes over the data directories of a stopped Apache Kafka broker."""
