"""/metrics of a View Manager, for Prometheus (docs/operations.md lists them)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from vms.clock import wall_ms
from vms.errors import StoreError

if TYPE_CHECKING:
    from vms.manager.serving import Serving

#: Name, help, and where it is in `Serving.status`.
_GAUGES = (
    ("vms_manager_leads", "1 where this manager leads", "leads"),
    ("vms_ring_version", "Version of the slot map in force", "ring"),
    ("vms_inbox_bytes", "Bytes that came over links and are not handled yet", "inbox_bytes"),
)
_COUNTERS = (
    ("vms_epochs", "Committed epochs of the cluster", "epochs"),
    ("vms_source_rows", "Source rows taken in by this manager", "rows"),
    ("vms_sent_messages", "Messages sent over links", "sent_messages"),
    ("vms_sent_bytes", "Bytes sent over links", "sent_bytes"),
    ("vms_dropped_messages", "Messages dropped because a receiver took nothing in", "dropped_messages"),
    ("vms_spilled_bytes", "Bytes that waited on disk before they were handled", "spilled_bytes"),
)


class MetricsServer:
    """Listens from the start; has something to tell when it serves."""

    def __init__(self, place: str) -> None:
        host, _, port = place.rpartition(":")
        self._registry = CollectorRegistry(auto_describe=False)
        try:
            self._server, self._thread = start_http_server(int(port), addr=host, registry=self._registry)
        except OSError as error:
            raise StoreError(f"cannot listen on {place} for /metrics: {error.strerror}") from None
        self.address = f"{host}:{self._server.server_port}"

    def serve(self, serving: Serving) -> None:
        self._registry.register(_Collector(serving))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Collector:
    """Asked at every scrape."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        status = self._serving.status()
        for name, text, key in _GAUGES:
            yield GaugeMetricFamily(name, text, value=float(status[key]))
        for name, text, key in _COUNTERS:
            yield CounterMetricFamily(name, text, value=float(status[key]))
        yield _labelled(CounterMetricFamily, "vms_refused", "Refused calls and messages", "reason", status["refused"])
        yield _labelled(CounterMetricFamily, "vms_spent_seconds", "Time of epochs", "activity", status["seconds"])
        yield _labelled(
            GaugeMetricFamily, "vms_memory_bytes", "State by operation", "operation", status["memory_bytes"]
        )
        slots = {id_: member["slots"] for id_, member in status["members"].items()}
        yield _labelled(GaugeMetricFamily, "vms_member_slots", "Slots of each member here", "member", slots)
        lost = sum(member["lost"] is not None for member in status["members"].values())
        yield GaugeMetricFamily("vms_members_lost", "Members here whose state is lost", value=lost)
        backlog = status["backlog"]
        yield GaugeMetricFamily(
            "vms_backlog_entries", "Entries delivered and not acknowledged", value=backlog["entries"]
        )
        yield GaugeMetricFamily("vms_backlog_bytes", "Bytes of these entries", value=backlog["bytes"] or 0)
        yield GaugeMetricFamily("vms_lag_seconds", "Age of the oldest", value=(backlog["oldest_ms"] or 0) / 1000)
        open_ms = wall_ms() - status["epoch"] if status["epoch"] > status["committed"] else 0
        yield GaugeMetricFamily("vms_epoch_open_seconds", "How long the epoch under way takes", value=open_ms / 1000)


def _labelled(kind: Any, name: str, text: str, label: str, values: dict[str, Any]) -> Metric:
    family = kind(name, text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], float(value))
    return family
