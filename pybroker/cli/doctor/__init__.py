"""`pybroker doctor`: finds risks for a broker's data or service before they do harm. It changes nothing.

| module | answers |
|---|---|
| `command` | the command line, the table, the exit code |
| `finding` | the result of one check |
| `machine` | limits of the process, memory, the clock |
| `places` | the disks of the data, file permissions, owner of the data |
| `settings` | effects of settings on durability and access |
| `addresses`, `store` | whether ports are free; whether ZooKeeper answers, and its data about this broker |
| `running` | the same checks of running brokers, and risks of their topics |
"""
