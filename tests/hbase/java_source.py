"""Java programs beside the tests, run as they are: clients of HBase that know nothing of VMS."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vms.devcluster.cluster import DevCluster
from vms.store.java import hbase_jars, java

_FLAGS = ("-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def run_java(cluster: DevCluster, name: str, *arguments: str) -> list[str]:
    """The lines that a program prints; the settings of the cluster's clients are its last arguments."""
    settings = [f"{key}={value}" for key, value in cluster.address.client_settings.items()]
    source = str(Path(__file__).with_name(f"{name}.java"))
    command = [java(), *_FLAGS, "-cp", f"{hbase_jars(print)}/*", source, *arguments, *settings]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
