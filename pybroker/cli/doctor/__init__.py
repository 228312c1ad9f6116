"""`pybroker doctor`: finds risks for a broker's data or service before they do harm. It changes nothing.

| module | answers |
|---|---|
| `doctor_command` | the command line, the table, the exit code |
| `finding` | the result of one check |
| `machine_checks` | limits of the process, memory, the clock |
| `disk_checks` | the disks of the data, file permissions, owner of the data |
| `setting_checks` | effects of settings on durability and access |
| `address_checks`, `store_checks` | whether ports are free; whether ZooKeeper answers, and its data about this broker |
| `broker_checks` | the same checks of running brokers, and risks of their topics |
"""
