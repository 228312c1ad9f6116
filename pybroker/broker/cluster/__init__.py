"""The controller as the rest of the broker sees it: a readable image of the cluster, and a client to submit events."""
