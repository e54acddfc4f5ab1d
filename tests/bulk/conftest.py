"""One Spark session for the whole run: two workers, small heaps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from vms.bulk.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("local[2]", {"spark.driver.memory": "1g"})
    yield session
    session.stop()
