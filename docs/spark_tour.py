"""A tour of `format("pybroker")`: paste it cell by cell (`# %%`) into a notebook, or run it as a whole.

It wants a broker (`pybroker start`) and `pip install '.[spark]'` in the checkout; docs/spark.md explains what it
shows. The address is taken from BOOTSTRAP, files go below FOLDER.
"""

# %% Where: the broker, a folder for files and checkpoints, and names that no other topic has
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
FOLDER = Path(os.environ.get("FOLDER") or tempfile.mkdtemp(prefix="spark-tour-"))
ORDERS = f"tour-orders-{time.time_ns()}"
COPY = f"{ORDERS}-copy"
BROKER = {"kafka.bootstrap.servers": BOOTSTRAP}

# Spark's workers need the interpreter that has pybroker.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.master("local[2]").appName("tour").config("spark.ui.enabled", "false").getOrCreate()


def pybroker(*words: str) -> None:
    """The command line, as in a shell: pybroker topics create …"""
    subprocess.run([sys.executable, "-m", "pybroker", *words, "--bootstrap-server", BOOTSTRAP], check=True)


for topic in (ORDERS, COPY):
    pybroker("topics", "create", topic, "--partitions", "3")

# %% Load a batch: all rows are in the topic afterwards, once, whatever fails on the way
spark.range(1000).selectExpr("id", "id % 10 AS customer", "id * 1.5 AS amount").write.parquet(f"{FOLDER}/orders")
orders = spark.read.parquet(f"{FOLDER}/orders").selectExpr(
    "cast(customer AS string) AS key", "to_json(struct(*)) AS value"
)


def load(ingest_id: str) -> None:
    """Loads the orders under a name of the load."""
    options = {**BROKER, "topic": ORDERS, "ingestId": ingest_id}
    orders.write.format("pybroker").options(**options).mode("append").save()


load("orders-monday")
load("orders-monday")  # The same load again: nothing is written.


def count(topic: str) -> int:
    """How many records a topic holds."""
    return spark.read.format("pybroker").options(**BROKER, subscribe=topic, columns="offset").load().count()


print("loaded twice:", count(ORDERS))

# %% Read a batch, with where each record stands
found = spark.read.format("pybroker").options(**BROKER, subscribe=ORDERS).load()
found.selectExpr("topic_id", "partition", "offset", "cast(key AS string)", "cast(value AS string)").show(5)

# %% Stream, both ways: each micro-batch is in the copy once, however often the query is stopped and started


def copy(on_topic_recreated: str = "fail") -> None:
    """Copies what is new, and ends; without the trigger the query would go on for ever."""
    source = {**BROKER, "subscribe": ORDERS, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "600"}
    sink = {**BROKER, "topic": COPY, "checkpointLocation": f"{FOLDER}/copy-checkpoint"}
    incoming = spark.readStream.format("pybroker").options(**source, onTopicRecreated=on_topic_recreated).load()
    copying = incoming.select("key", "value").writeStream.format("pybroker").options(**sink)
    copying.trigger(availableNow=True).start().awaitTermination()


copy()
load("orders-tuesday")
copy()
print("copied:", count(COPY))

# %% Archive: Parquet with the columns that say where each record came from (or: pybroker archive TOPIC FOLDER)
archive = spark.read.format("pybroker").options(**BROKER, subscribe=COPY).load()
archive.selectExpr(
    "key",
    "value",
    "topic_id AS _topic_id",
    "cluster_id AS _cluster_id",
    "partition AS _partition",
    "offset AS _offset",
    "timestamp AS _timestamp",
).write.parquet(f"{FOLDER}/archive")
print("archived:", spark.read.parquet(f"{FOLDER}/archive").count())

# %% A topic is deleted and created again: the stream refuses to mistake the new one for the old one
pybroker("topics", "delete", ORDERS)
pybroker("topics", "create", ORDERS, "--partitions", "3")
load("orders-wednesday")
try:
    copy()
except StreamingQueryException as refused:
    print("refused:", next(line for line in str(refused).splitlines() if "re-created" in line))

# %% Recovery: decide what the new topic's records are; here they are all new, so they are read from the start
copy("earliest")
copy("earliest")  # The checkpoint knows the new id now; the option may stay.
print("copied after the re-creation:", count(COPY))
