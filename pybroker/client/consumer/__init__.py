"""`Consumer`: `consumer` returns records, `fetcher` prefetches, `positions` tracks offsets, `group/` is membership."""
