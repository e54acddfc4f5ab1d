"""The benchmark itself: its cells are complete and exact, and the picture shows what is in them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench import engine
from bench.results.plot import draw


@pytest.fixture(scope="module")
def cells() -> list[dict]:
    found = engine.run(["q12", "q14"], [1000], 0.001, 0.09, 1, seconds=1.0, breakdown=True, peers=True)
    return list(found)


def test_engine_and_peers_are_exact_over_the_same_stream(cells: list[dict]) -> None:
    assert [(c["query"], c.get("peer", "VMS")) for c in cells] == [
        (query, who) for query in ("q12", "q14") for who in ("VMS", "DuckDB, evaluated anew")
    ]
    assert all(c["exact"] for c in cells), [c.get("difference") for c in cells]
    assert cells[0]["ratio"] is not None and cells[2]["ratio"] is None


def test_breakdown_names_every_operation_once_and_sums_up_to_the_whole(cells: list[dict]) -> None:
    shares = cells[0]["breakdown"]
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert {"DeltaView of lineitem", "DeltaView of orders", "Join on o_orderkey = l_orderkey"} <= set(shares)


def test_picture_has_a_bar_for_each_system(cells: list[dict]) -> None:
    about = {"sf": 0.001, "delete_share": 0.09, "machine": "a & b", "cores": 1, "load": 0.5, "commit": "abc"}
    picture = ElementTree.fromstring(draw(about, cells))
    texts = [t.text or "" for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "Q12" in texts and "Q14" not in texts  # without a limit there is nothing to compare with
    assert sum(t.endswith("million") for t in texts) == 3
