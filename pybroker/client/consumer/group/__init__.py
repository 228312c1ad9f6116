"""A consumer's group: membership, who reads what, committed offsets."""
