"""What a broker says about itself for a bug report (`pybroker diagnose`), without a secret in it.

| module | answers |
|---|---|
| `hidden` | which settings and texts are shown, and how |
| `nodes` | the metadata store's nodes as documents |
| `stacks` | what the process's threads and the loop's tasks do just now |
| `report` | all of that, of one broker that runs |
| `socket` | the file by which a user of the same machine asks for it |
"""
