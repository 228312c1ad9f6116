"""What an operator sees of a running broker besides its log (`pybroker/broker/logs.py`): metrics, health and
readiness."""
