"""The files of deploy/ and docker/ are what their readers take, and speak of what there is."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from xml.etree import ElementTree

import pytest
import yaml

from vms.config import ManagerConfig, load
from vms.manager.exposition import MetricsServer

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {f"VMS_MANAGER_{field.name.upper()}" for field in fields(ManagerConfig)}


class Status:
    """What a manager says of itself, as `Serving.status` gives it."""

    def status(self) -> dict[str, Any]:
        members = {"m1": {"slots": 512, "epoch": 5, "phase": "idle", "waiting": 0, "lost": None}}
        counts = ("ring", "epochs", "rows", "sent_messages", "sent_bytes", "dropped_messages", "spilled_bytes")
        return {
            **dict.fromkeys(counts, 7),
            "inbox_bytes": 0,
            "leads": True,
            "epoch": 5,
            "committed": 5,
            "members": members,
            "backlog": {"entries": 3, "bytes": None, "oldest_ms": 1500},
            "refused": {"secret": 2},
            "seconds": {"write": 0.5},
            "memory_bytes": {"table:t": 99},
        }


@pytest.fixture
def metrics() -> Iterator[str]:
    server = MetricsServer("127.0.0.1:0")
    server.serve(Status())  # type: ignore[arg-type]
    with urlopen(f"http://{server.address}/metrics", timeout=20) as answer:
        yield answer.read().decode()
    server.close()


def environment(file: str) -> set[str]:
    return set(re.findall(r"VMS_MANAGER_[A-Z_]+", (ROOT / file).read_text()))


def test_the_sample_settings_are_read_and_are_the_defaults() -> None:
    read = load(ROOT / "deploy/vms.toml", env={})
    assert read == load(None, {"metrics": "127.0.0.1:7401"}, env={})
    text = (ROOT / "deploy/vms.toml").read_text()
    assert {f.name for f in fields(ManagerConfig)} == set(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))


def test_the_systemd_unit_runs_a_command_that_there_is() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(ROOT / "deploy/systemd/vms-manager.service")
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"].split()[1:3] == ["manager", "run"]
    assert environment("deploy/systemd/vms-manager.service") <= SETTINGS


def test_the_kubernetes_manifests_belong_together() -> None:
    found = {one["kind"]: one for one in yaml.safe_load_all((ROOT / "deploy/kubernetes/managers.yaml").read_text())}
    assert set(found) == {"Service", "PodDisruptionBudget", "StatefulSet"}
    pod = found["StatefulSet"]["spec"]["template"]
    assert found["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert found["StatefulSet"]["spec"]["serviceName"] == found["Service"]["metadata"]["name"]
    assert environment("deploy/kubernetes/managers.yaml") <= SETTINGS


def test_the_compose_file_names_what_it_uses() -> None:
    compose = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
    assert environment("docker/compose.yaml") <= SETTINGS
    assert (ROOT / "docker" / services["manager-1"]["build"]["context"] / "docker/Dockerfile").resolve().is_file()
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert ElementTree.parse(ROOT / "docker/hbase-site.xml").getroot().tag == "configuration"


def test_the_dockerfile_copies_what_is_there() -> None:
    text = (ROOT / "docker/Dockerfile").read_text()
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in source.split())
    assert environment("docker/Dockerfile") <= SETTINGS


def test_alerts_ask_for_metrics_that_there_are(metrics: str) -> None:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    shown = set(re.findall(r"^(vms_\w+)", metrics, re.MULTILINE))
    asked = {name for rule in rules for name in re.findall(r"vms_\w+", rule["expr"])}
    assert asked <= shown
    assert all(rule["annotations"].keys() == {"summary", "action"} for rule in rules)


def test_the_document_lists_every_metric(metrics: str) -> None:
    shown = set(re.findall(r"^(vms_\w+)", metrics, re.MULTILINE))
    listed = set(re.findall(r"`(vms_\w+)`", (ROOT / "docs/operations.md").read_text()))
    assert listed == {name for name in shown if not name.endswith("_created")}
