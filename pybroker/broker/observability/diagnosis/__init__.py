"""A broker's report about itself for a bug report (`pybroker diagnose`), without secrets.

| module | answers |
|---|---|
| `redaction` | which settings and texts are shown, and how |
| `node_documents` | the metadata store's nodes as documents |
| `stacks` | stacks of the process's threads and of the loop's tasks |
| `diagnosis_report` | the whole report of one running broker |
| `diagnosis_socket` | the socket by which a user of the same machine requests it |
"""
