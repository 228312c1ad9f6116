"""`pybroker doctor`: what endangers the data or the service of a broker, said before it does. It changes nothing.

| module | answers |
|---|---|
| `command` | the command line, the table, the exit code |
| `finding` | what one look came to |
| `machine` | limits of the process, memory, the clock |
| `places` | the disks under the data, who may write to files, whose data it is |
| `settings` | what settings mean for the data and for who may reach it |
| `addresses`, `store` | whether ports are free; whether ZooKeeper answers, and what it says |
| `running` | the same questions asked of brokers that run, and what their topics risk |
"""
