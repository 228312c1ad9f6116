"""`Producer`. `async_producer` takes records, `accumulator` buffers them in batches, `batch_sender` sends the batches.
"""
