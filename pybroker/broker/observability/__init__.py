"""What an operator sees of a running broker beside its log (`pybroker/broker/logs.py`): metrics, alive and ready."""
