"""`Producer`: `producer` takes records, `accumulator` keeps them, `sender` has them written."""
