"""OTLP over HTTP: sends metrics, traces of slow requests, and metrics that clients push to an OpenTelemetry collector.
Imported when `otlp.endpoint` is set; needs `pip install 'pybroker[otlp]'`.

| module | answers |
|---|---|
| `page` | parses the text of /metrics |
| `messages` | builds OTLP messages from metrics, slow requests and client metrics |
| `sender` | sends them to the collector: retries, and counts of lost messages |
| `export` | the thread that schedules it |
| `slices` | pauses that let other threads run |
| `setup` | creates the export from the settings |
"""
