"""`pybroker diagnose`: one archive for a bug report, without secrets.

| module | answers |
|---|---|
| `command` | the command line, and which parts are asked for |
| `archive` | the file that is written |
| `machine` | what this machine and its Python are |
| `directories` | what lies in the data directories |
| `stopped` | what the metadata store of a broker holds that does not run |
| `over_the_net` | what brokers say to an administrator |
"""
