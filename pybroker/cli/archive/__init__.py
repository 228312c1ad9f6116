"""`pybroker archive`: a topic into Parquet files, each row with where it came from.

An archive is written in parts, each by a Spark job of its own, under a plan that stands in the folder while it is not
finished: run again after whatever ended it, the command goes on behind the last part that is there.

| module | answers |
|---|---|
| `bounds` | what `--from` and `--to` mean |
| `plan` | which offsets, in which parts |
| `folder` | what is in the folder: plan, finished parts, files |
| `command` | the command |
"""
