"""The main job as a program: text through Spark into a broker and back, compared record by record.

`python -m examples.roundtrip` starts a broker and loads the text of the installed Python packages (or of `--input`):
with PySpark and Spark's own Kafka connector as a batch and as a structured-streaming query, and with
`format("pybroker")`, where a task is killed in the middle and the whole load runs twice. It reads all topics back with
Spark and with confluent-kafka, and exits with 0 only if every count and digest agrees.

It is a client of the broker: none of the broker's code runs in this process.
"""
