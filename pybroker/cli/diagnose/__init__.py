"""`pybroker diagnose`: one archive for a bug report, without secrets.

| module | answers |
|---|---|
| `command` | the command line, and the selection of parts |
| `archive` | the archive file |
| `machine` | facts about this machine and its Python |
| `directories` | contents of the data directories |
| `stopped` | the metadata store of a stopped broker |
| `over_the_net` | brokers' responses to an administrator |
"""
