"""The store contract on a real HBase."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from store_contract import StoreContract

from vms.store.hbase import HBaseStore


@pytest.fixture
def store(hbase: HBaseStore) -> Iterator[HBaseStore]:
    """Without any table."""
    drop_all(hbase)
    yield hbase
    drop_all(hbase)


def drop_all(store: HBaseStore) -> None:
    for table in store.tables():
        store.drop_table(table)


class TestHBaseStore(StoreContract):
    pass
