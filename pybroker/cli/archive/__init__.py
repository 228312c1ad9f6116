"""`pybroker archive`: writes a topic into Parquet files; each row contains its origin.

An archive is written in parts by separate Spark jobs. While it is unfinished, its plan is in the folder: after an
interruption the command continues after the last finished part.

- `archive_bounds`: the meaning of `--from` and `--to`
- `archive_plan`: offsets and parts
- `folder`: contents of the folder: plan, finished parts, files
- `archive_command`: the command
"""
