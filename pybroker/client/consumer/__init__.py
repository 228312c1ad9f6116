"""`Consumer`: `async_consumer` returns records, `fetcher` prefetches, `group/` is membership."""
