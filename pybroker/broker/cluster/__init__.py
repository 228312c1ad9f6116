"""The controller as seen by the rest of the broker: a readable image of the cluster, and a client to submit events."""
