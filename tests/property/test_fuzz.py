"""2,000 random views over random histories, on one member and on three (vms/testing/fuzz.py)."""

from __future__ import annotations

import pytest

from vms.testing.fuzz import VIEWS, fuzz

#: Seeds of every `make test`, and how many of them one test takes.
SEEDS, AT_ONCE = 2_000 // VIEWS, 10


@pytest.mark.parametrize("start", range(0, SEEDS, AT_ONCE))
def test_random_views_equal_both_oracles_after_every_step(start: int) -> None:
    for seed in range(start, start + AT_ONCE):
        try:
            fuzz(seed)
        except Exception as wrong:
            wrong.add_note(f"replay: make fuzz N=1 START={seed}")
            raise
