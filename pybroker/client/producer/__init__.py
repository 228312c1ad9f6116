"""`Producer`: `async_producer` takes records, `accumulator` buffers batches, `batch_sender` sends them."""
