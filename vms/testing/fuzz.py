"""Random views over random histories, against both oracles after every step: `make fuzz N=10000 START=0`.

One seed makes a history, several views, and one over some of those. One member runs all of them as one merged plan;
three members, between which slots move, run them too. After every step each view must equal both oracles, in what was
emitted so far and in what its state says it holds.
"""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from random import Random

import click
import numpy as np

from vms.errors import UnsupportedSql
from vms.maintenance.engine import Engine
from vms.maintenance.virtual_store import ALL_SLOTS
from vms.model.changes import Int64
from vms.model.ring import SLOTS
from vms.model.table import BaseTable
from vms.model.types import DOUBLE
from vms.plan.frontend import ViewPlan, plan_view
from vms.plan.plan import MaintenancePlan
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle, beyond_datafusion
from vms.testing.plan_run import MEMBERS, SWEEP_ALWAYS, Event, Members, Rows, ViewTable, row_changes
from vms.testing.random_sql import KEYS, TABLES, VALUES, Generator

#: Views and steps of one seed.
VIEWS, STEPS = 8, 4


@dataclass
class Outcome:
    """How many views were compared, and the reasons for which others were refused."""

    checked: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def fuzz(seed: int, views: int = VIEWS) -> Outcome:
    """One seed; raises with the view's SQL and the history's step where something differs."""
    random, outcome = Random(seed), Outcome()
    generator, plans = Generator(random), dict[str, ViewPlan]()
    texts: dict[str, str] = {}
    while len(texts) < views:
        name, sql = f"v{len(texts)}", generator.view()
        try:
            plans[name] = plan_view(name, sql, TABLES)
            texts[name] = sql
        except UnsupportedSql as refusal:
            outcome.refused[_reason(refusal)] += 1
    texts["over"] = over(plans, Random(f"over {seed}"))
    plans["over"] = plan_view("over", texts["over"], TABLES, views=dict(plans))
    check(texts, MaintenancePlan.merge(p.plan for p in plans.values()), random)
    outcome.checked = len(texts)
    return outcome


def over(views: Mapping[str, ViewPlan], random: Random) -> str:
    """A view over one or two of the views. Doubles are no keys: the oracles may differ in their last digit."""
    name, other = (random.choice(sorted(views)) for _ in range(2))
    columns = {n: [f for f in views[n].fields if f.type != DOUBLE] for n in (name, other)}
    pairs = [(a, b) for a in columns[name] for b in columns[other] if a.type == b.type]
    every = ", ".join(f.name for f in views[name].fields)
    kinds = ["rows", *(["groups"] if columns[name] else []), *(["join"] if pairs else [])]
    match random.choice(kinds):
        case "groups":
            key, counted = random.choice(columns[name]).name, random.choice(views[name].fields).name
            return f"SELECT {key}, count(*) AS n, count({counted}) AS c FROM {name} GROUP BY {key}"
        case "join":
            a, b = random.choice(pairs)
            kind = random.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
            return (
                f"SELECT a.{a.name} AS x, count(b.{b.name}) AS n FROM {name} a {kind} {other} b "
                f"ON a.{a.name} = b.{b.name} GROUP BY a.{a.name}"
            )
    condition = f"{random.choice(views[name].fields).name} IS {random.choice(['', 'NOT '])}NULL"
    return f"SELECT {every} FROM {name} WHERE {condition} UNION ALL SELECT {every} FROM {name}"


def check(texts: dict[str, str], plan: MaintenancePlan, random: Random) -> None:
    """The views over a random history, on one member and on three."""
    engine, members = Engine(plan, TABLES), Members(plan, TABLES, _owners(random))
    engine.pool.slack = SWEEP_ALWAYS
    alone = {name: ViewTable(plan.outputs[name]) for name in texts}
    base = {name: Rows(table) for name, table in TABLES.items()}
    datafusion, duck = DataFusionOracle(), DuckOracle()
    for step in range(STEPS):
        stamped = {n: base[n].apply(_events(random, t, 14 if step == 0 else 5)) for n, t in TABLES.items()}
        sources = {
            t: row_changes(TABLES[t], engine.source_columns(t), stamped[t], engine.pool, ALL_SLOTS)
            for t in plan.sources
        }
        if step:
            members.move(_owners(random))
        emitted = engine.step(sources)
        members.step(stamped)
        rows = {name: table.arrow() for name, table in base.items()}
        for name, sql in texts.items():
            where = f"{sql}\nstep {step}"
            alone[name].write(emitted[name], engine.pool)
            expected = duck.evaluate(sql, rows)
            if not beyond_datafusion(sql):
                theirs, expected = expected, datafusion.evaluate(sql, rows)
                assert_same_rows(expected, theirs, f"the oracles about {where}")
            rows[name] = expected
            assert_same_rows(alone[name].arrow(), expected, where)
            assert_same_rows(engine.contents(name), expected, f"contents: {where}")
            assert_same_rows(members.tables[name].arrow(), expected, f"three members: {where}")
        engine.sweep()


def _owners(random: Random) -> Int64:
    owners = np.random.default_rng(random.getrandbits(32)).integers(0, len(MEMBERS), SLOTS)
    owners[: len(MEMBERS)] = range(len(MEMBERS))
    return owners


def _events(random: Random, table: BaseTable, most: int) -> list[Event]:
    """Puts of whole rows and of some columns, and deletes."""
    found = []
    for _ in range(random.randint(0, most)):
        kind, cells = random.choice(["row"] * 4 + ["part"] + ["delete"] * 2), None
        if kind != "delete":
            wanted = [c for c in table.value_columns if kind == "row" or random.random() < 0.5]
            cells = {c.name: random.choice(VALUES[c.type]) for c in wanted}
        found.append(Event(random.choice(KEYS[table.name]), cells))
    return found


def _reason(refusal: UnsupportedSql) -> str:
    """What was refused, without its position and names."""
    return re.sub(r"\(line.*", "", str(refusal).split(";")[0]).strip()


# --- many seeds ------------------------------------------------------------------------------------------------


def attempt(seed: int) -> tuple[Outcome | None, str]:
    """The outcome, or the trace of what went wrong."""
    try:
        return fuzz(seed), ""
    except Exception:
        return None, traceback.format_exc()


def attempts(start: int, seeds: int, jobs: int) -> Iterator[tuple[int, Outcome | None, str]]:
    """All seeds, on several processes."""
    with ProcessPoolExecutor(jobs) as pool:
        for seed, (outcome, trace) in zip(range(start, start + seeds), pool.map(attempt, range(start, start + seeds))):
            yield seed, outcome, trace


@click.command()
@click.option("--views", default=10_000, show_default=True, help="How many views.")
@click.option("--start", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
def main(views: int, start: int, jobs: int) -> None:
    """Random views over random histories against DataFusion and DuckDB; a failing seed replays exactly."""
    began, total, failed, seeds = time.monotonic(), Outcome(), 0, -(-views // VIEWS)
    for done, (seed, outcome, trace) in enumerate(attempts(start, seeds, jobs), 1):
        if outcome is None:
            failed += 1
            click.echo(f"seed {seed} failed:\n{trace}")
        else:
            total.checked += outcome.checked
            total.refused += outcome.refused
        if done % 50 == 0 or done == seeds:
            refused = sum(total.refused.values())
            click.echo(
                f"{done} of {seeds} seeds, {total.checked} views exact, {refused} refused, {failed} seeds failed, "
                f"{time.monotonic() - began:.0f} s"
            )
    for reason, times in total.refused.most_common():
        click.echo(f"{times:6} x {reason}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
