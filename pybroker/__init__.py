"""pybroker: a broker that speaks Apache Kafka's protocol, in which a topic's identity is its id."""
