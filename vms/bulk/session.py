"""A Spark session as bulk jobs need it, on whatever master."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

#: What bulk jobs rely on. Adaptive execution would merge the parts, each of which is one task.
_NEEDED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.hadoopRDD.ignoreEmptySplits": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
_USUAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}


def spark_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The session of this process; made if there is none.

    `master`: None leaves it to spark-submit, or to local[*] where that does not say. Workers use the Python
    of the driver unless PYSPARK_PYTHON names theirs.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    if running is None:
        builder = SparkSession.builder.appName("vms")
        if master is not None:
            builder = builder.master(master)
            if master.startswith("local"):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for key, value in {**_USUAL, **(settings or {})}.items():
            builder = builder.config(key, value)
        running = builder.getOrCreate()
        running.sparkContext.setLogLevel("ERROR")
    for key, value in _NEEDED.items():
        if running.conf.isModifiable(key):
            running.conf.set(key, value)
    return running
