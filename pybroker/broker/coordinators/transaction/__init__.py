"""Transactions over several partitions (KIP-98, KIP-890): who writes in one, what belongs to it, how it ends."""
