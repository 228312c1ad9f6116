"""What TLS costs a broker, beside Apache Kafka under the same version of TLS and the same cipher."""
