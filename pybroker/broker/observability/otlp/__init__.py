"""OTLP over HTTP: sends metrics, traces of slow requests, and metrics that clients push to an OpenTelemetry collector.
Imported when `otlp.endpoint` is set; needs the extra `otlp` of pyproject.toml.

| module | answers |
|---|---|
| `otlp_messages` | builds OTLP messages from metrics, slow requests and client metrics |
| `otlp_sender` | sends the messages to the collector: retries, and counts of lost messages |
| `otlp_export` | creates the export from the settings; the thread that schedules it |
"""
