"""The metadata quorum: nodes in processes, on disks and sockets."""
