"""Consumer groups of KIP-848: members heartbeat, the coordinator assigns. Stands on the shards of `group`."""
