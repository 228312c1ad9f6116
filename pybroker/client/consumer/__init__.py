"""`Consumer`: `consumer` gives records, `fetcher` gets them ahead, `positions` knows where we are, `group/` joins."""
