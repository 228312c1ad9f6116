"""`pybroker diagnose`: one archive for a bug report, without secrets.

- `diagnose_command`: the command line, and the selection of parts
- `archive`: the archive file
- `machine_report`: facts about this machine and its Python
- `directory_listing`: contents of the data directories
- `metadata_snapshot`: the metadata store of a stopped broker
- `cluster_snapshot`: brokers' responses to an administrator
"""
