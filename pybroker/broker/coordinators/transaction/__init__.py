"""Transactions over several partitions (KIP-98, KIP-890): their producers, partitions and outcomes."""
