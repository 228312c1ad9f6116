"""`pybroker doctor`: finds risks for a broker's data or service before they cause damage. It changes nothing.

- `doctor_command`: the command line, the table, the exit code
- `finding`: the result of one check
- `machine_checks`: limits of the process, memory, the clock
- `disk_checks`: the disks of the data, file permissions, owner of the data
- `setting_checks`: effects of settings on durability and access
- `address_checks`: whether listener addresses are free
- `store_checks`, `quorum_checks`: whether ZooKeeper or the voters respond, and their data about this broker
- `broker_checks`: the same checks of running brokers, and risks of their topics
"""
