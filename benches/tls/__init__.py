"""The cost of TLS, compared with Apache Kafka under the same TLS version and cipher."""
