"""From a folder of packet captures to bars and the latencies of transactions."""

# %% Captures → tables: python captures_to_bars.py CAPTURES LAKE
import sys

from wireloom.pipeline import run_pipeline
from wireloom.spark import session
from wireloom.spark.derived import derive
from wireloom.spark.executor import SparkExecutor

captures, lake = sys.argv[1:]
run_pipeline(captures, lake, executor=SparkExecutor(session()))

# %% Open, high, low, close and volume of every instrument
bars = derive("bars", lake, interval="1 second").drop("source", "stream", "until")
bars.orderBy("subject", "ts").show(5)

# %% How long transactions take, in nanoseconds
took = derive("blaze_transactions", lake).groupBy("outcome")
took.agg({"*": "count", "latency_ns": "median"}).show()
