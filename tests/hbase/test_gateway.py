"""The Thrift gateway: connections that break, and errors that become ours."""

from __future__ import annotations

import socket
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from store_contract import A, put, row_delete, values
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TTransportException

from vms.devcluster.cluster import DevCluster
from vms.errors import AlreadyExists, InvalidValue, StoreError, StoreUnavailable, TableMissing, UserError, VmsError
from vms.store.base import Family
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress
from vms.store.thrift import Gateway, HBaseError, IllegalArgument, ThriftAlreadyExists, translated


@pytest.fixture
def table(up: DevCluster, hbase: HBaseStore, name: str) -> str:
    hbase.create_table(name, {"f": Family(versions=3)})
    hbase.mutate(name, [put(b"%05d" % i, 1, a=b"%d" % i) for i in range(3000)])
    return name


def test_a_restarted_gateway_is_found_again(up: DevCluster, hbase: HBaseStore, table: str) -> None:
    up.kill("thrift")
    starting = Thread(target=up.start, args=("thrift",))
    starting.start()
    hbase.mutate(table, [put(b"new", 2, a=b"2")])
    assert values(hbase.get(table, b"new")) == {A: b"2"}
    starting.join()


def test_a_scan_goes_on_after_a_restart(up: DevCluster, hbase: HBaseStore, table: str) -> None:
    scan = hbase.scan(table)
    seen = [next(scan)[0] for _ in range(100)]
    up.kill("thrift")
    up.start("thrift")
    other = hbase.scan(table, b"02000")
    seen += [row for row, _ in scan]
    assert seen == [b"%05d" % i for i in range(3000)]
    assert len(list(other)) == 1000


def test_a_connection_that_was_dropped_is_replaced(hbase: HBaseStore, table: str) -> None:
    hbase.get(table, b"00001")
    for _, connection in hbase._gateway._idle:
        connection.transport.sock.shutdown(socket.SHUT_RDWR)
    assert values(hbase.get(table, b"00001")) == {A: b"1"}
    hbase.mutate(table, [row_delete(b"00001", 5)])
    assert hbase.get(table, b"00001") is None


def test_calls_at_once_have_a_connection_each(hbase: HBaseStore, table: str) -> None:
    wrong: list[Any] = []

    def read(offset: int) -> None:
        for i in range(offset, 300, 12):
            found = values(hbase.get(table, b"%05d" % i))
            if found != {A: b"%d" % i}:
                wrong.append(found)

    readers = [Thread(target=read, args=(offset,)) for offset in range(12)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_a_gateway_that_is_not_there_is_named(up: DevCluster) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port} did not answer"):
            HBaseStore(HBaseAddress("127.0.0.1", port, "127.0.0.1:1"), patience=0.1)


def test_a_gateway_that_says_nothing_is_given_up() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        gateway = Gateway("127.0.0.1", mute.getsockname()[1], timeout=0.2, patience=0.3)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            gateway.call(lambda client: client.getTableNames())


def test_a_table_that_somebody_else_dropped_is_missing(up: DevCluster, hbase: HBaseStore, table: str) -> None:
    other = HBaseStore(up.address)
    other.drop_table(table)
    other.close()
    with pytest.raises(TableMissing, match=table):
        hbase.mutate(table, [put(b"r", 1, a=b"1")])
    with pytest.raises(TableMissing, match=table):
        hbase.scan(table)


def test_a_closed_store_says_so(up: DevCluster, name: str) -> None:
    store = HBaseStore(up.address)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.tables()


def raising(error: Exception) -> Callable[[Any], None]:
    def make(_: Any) -> None:
        raise error

    return make


@pytest.mark.parametrize(
    "error",
    [
        HBaseError(message=b"java.io.IOException: whatever\n\tat x"),
        HBaseError(message=b"no Java at all"),
        HBaseError(message=None),
        IllegalArgument(message=b"scanner ID is invalid"),
        ThriftAlreadyExists(message=b"table name already in use"),
        TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing get"),
        TTransportException(TTransportException.END_OF_FILE, "gone"),
        TProtocolException(TProtocolException.BAD_VERSION, "what?"),
        ConnectionResetError(104, "reset"),
        TimeoutError("timed out"),
        EOFError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_of_thrift_gets_through(up: DevCluster, error: Exception) -> None:
    gateway = Gateway("127.0.0.1", up.ports.thrift, patience=0)
    with pytest.raises(VmsError) as raised:
        gateway.call(raising(error))
    assert str(raised.value)
    assert gateway.call(lambda client: client.getTableNames()) is not None
    gateway.close()


@pytest.mark.parametrize(
    "message, wanted",
    [
        ("org.apache.hadoop.hbase.TableNotFoundException: t\n\tat x", TableMissing),
        ("org.apache.hadoop.hbase.TableExistsException: t", AlreadyExists),
        ("org.apache.hadoop.hbase.client.RetriesExhaustedException: Failed after attempts=16", StoreUnavailable),
        ("org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException: Failed 1 action: t: 1 time", StoreError),
        ("org.apache.hadoop.hbase.NotServingRegionException: r is not online", StoreUnavailable),
        ("java.net.ConnectException: Connection refused", StoreUnavailable),
        ("org.apache.hadoop.hbase.security.AccessDeniedException: Insufficient permissions", StoreError),
        ("org.apache.hadoop.hbase.DoNotRetryIOException: no such thing", InvalidValue),
        (
            "org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException: Failed 1 action: "
            "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: Column family zz",
            StoreError,
        ),
    ],
)
def test_what_hbase_says_decides_the_error(message: str, wanted: type[Exception]) -> None:
    found = translated(HBaseError(message=message.encode()))
    assert type(found) is wanted or isinstance(found, wanted), found
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("hbase:h:9090?zookeeper=a,b:2182&znode=/x", HBaseAddress("h", 9090, "a,b:2182", "/x")),
        ("hbase:h", HBaseAddress("h", 9090, "h:2181")),
        ("hbase:h:1?zookeeper=z", HBaseAddress("h", 1, "z:2181")),
    ],
)
def test_addresses(monkeypatch: pytest.MonkeyPatch, text: str, wanted: HBaseAddress) -> None:
    monkeypatch.delenv("HBASE_CONF_DIR", raising=False)
    assert HBaseAddress.parse(text) == wanted
    assert HBaseAddress.parse(str(wanted)) == wanted


@pytest.mark.parametrize("text", ["hbase:", "hbase:h:x", "hbase::1", "hbase:h:1?zoo=1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="hbase:HOST:PORT"):
        HBaseAddress.parse(text)


def test_an_address_is_completed_from_the_configuration(up: DevCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBASE_CONF_DIR", str(up.conf))
    assert HBaseAddress.parse(f"hbase:127.0.0.1:{up.ports.thrift}") == up.address
