"""`pybroker produce` and `pybroker consume`: records between files and topics, like kcat and rpk."""
