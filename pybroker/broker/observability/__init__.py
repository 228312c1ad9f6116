"""The means by which operators observe a running broker, besides its log (`pybroker/broker/logs.py`): metrics, health
and readiness."""
