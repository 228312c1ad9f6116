"""A broker's report about itself for a bug report (`pybroker diagnose`), without secrets.

| module | answers |
|---|---|
| `hidden` | which settings and texts are shown, and how |
| `nodes` | the metadata store's nodes as documents |
| `stacks` | stacks of the process's threads and of the loop's tasks |
| `report` | all of that, of one running broker |
| `socket` | the socket by which a user of the same machine requests it |
"""
