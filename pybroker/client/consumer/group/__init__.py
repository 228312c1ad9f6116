"""A consumer's group: membership, assignment, committed offsets."""
