"""Consumer groups of KIP-848: members send heartbeats, and the coordinator assigns partitions."""
