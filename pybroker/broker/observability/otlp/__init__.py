"""OTLP over HTTP: metrics, traces of slow requests, and what clients push, to an OpenTelemetry collector. Imported
when `otlp.endpoint` is set; needs `pip install 'pybroker[otlp]'`.

| module | answers |
|---|---|
| `page` | what stands in the text of /metrics |
| `messages` | the same, slow requests and clients' metrics as OTLP's messages |
| `sender` | how they get to the collector: attempts, and what is lost |
| `export` | when: the thread that does it |
| `slices` | how the others run meanwhile |
| `setup` | what the settings make of it |
"""
