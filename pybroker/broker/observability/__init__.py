"""What operators can observe of a running broker besides its log (`pybroker/broker/logs.py`): metrics, health and
readiness."""
