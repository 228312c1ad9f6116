"""The only writer of metadata: events, pure decisions, and the loop that makes them durable, visible, sent and
answered."""
