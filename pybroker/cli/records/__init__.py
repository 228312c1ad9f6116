"""`pybroker produce` and `pybroker consume`: records between files and topics, in the manner of kcat and rpk."""
