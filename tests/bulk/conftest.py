"""One Spark session for the whole run: two workers, small heaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from vms.bulk.session import spark_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A Spark job starts processes: on a machine that is busy with others it takes minutes."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("local[2]", {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
