"""`Producer`: `producer` takes records, `accumulator` buffers batches, `sender` sends them."""
