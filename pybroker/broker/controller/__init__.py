"""The controller, the only writer of metadata: events, the pure functions that decide them, and the loop that makes
each decision durable, publishes it to the brokers and responds."""
