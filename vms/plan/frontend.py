"""SQL text -> DataFusion -> Substrait -> logical tree -> MaintenancePlan (design section 4).

DataFusion parses, types and optimises; it is imported nowhere else in the plan layer. Each step is a module:
`refusals` says what cannot be a view, `substrait_reader` reads the exported plan, `join_order` and `simplify`
shape it, `rounds` spreads it over the members.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from datafusion import LogicalPlan, SessionConfig, SessionContext, SQLOptions
from datafusion.substrait import Producer

from vms.errors import InternalError, SqlError, UnknownName
from vms.model.table import BaseTable
from vms.model.types import from_arrow
from vms.plan.correlated import lost_in_joins
from vms.plan.join_order import order_joins
from vms.plan.logical import Rel, View
from vms.plan.plan import Field, MaintenancePlan, TopK
from vms.plan.refusals import Refused, check, explain_error, holds, place, plain
from vms.plan.rounds import TIMES, to_rounds
from vms.plan.set_operations import Counted
from vms.plan.simplify import simplify
from vms.plan.spellings import read as read_text
from vms.plan.substrait_reader import read_plan
from vms.plan.window_text import read_calls

_SETTINGS = {
    # 0.06 is a decimal, so that arithmetic stays exact
    "datafusion.sql_parser.parse_float_as_decimal": "true",
    # VARCHAR is Arrow's string everywhere, as in our tables
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    # the plan is never run: no work may be split up in it
    "datafusion.execution.target_partitions": "1",
}
#: Equal parts of expressions are found when they are evaluated; taken out here, they only add projections.
#: A limit stays where the text has it, so that the order that it belongs to can be told; so does DISTINCT in an
#: aggregate, which is the same to us wherever it stands (vms/plan/aggregates.py).
_RULES_LEFT_OUT = (
    "common_sub_expression_eliminate",
    "push_down_limit",
    "single_distinct_aggregation_to_group_by",
)
#: Left out beside INTERSECT ALL and EXCEPT ALL, below which it drops copies of rows that we count.
_RULES_OF_SETS = ("eliminate_join",)
_IN_ON = "a subquery in the condition of this join"


@dataclass(frozen=True)
class ViewPlan:
    """A view that can be maintained.

    `fields` are its visible columns. `logical` is DataFusion's optimised plan, as text. `tables` and `views` are those
    that the text names, also where the plan needs nothing of them. `root` computes its rows. `notes` tell what of
    the text has no effect.
    """

    name: str
    sql: str
    plan: MaintenancePlan
    fields: tuple[Field, ...]
    logical: str
    tables: tuple[str, ...]
    views: tuple[str, ...]
    root: Rel = field(repr=False)
    notes: tuple[str, ...] = ()


def plan_view(
    name: str,
    sql: str,
    tables: Mapping[str, BaseTable],
    row_counts: Mapping[str, int] | None = None,
    views: Mapping[str, ViewPlan] | None = None,
) -> ViewPlan:
    """The maintenance plan of `CREATE MATERIALIZED VIEW name AS sql`.

    A pure function of its arguments: the same text, tables, views and row counts give the same plan with the same
    node ids. The plans of `views` that the text reads become part of it. Raises SqlError or UnknownName for what is
    wrong with the text and UnsupportedSql, with position and advice, for what cannot be maintained.
    """
    check(sql)
    counted = _counted(sql)
    views = views or {}
    known = {**{n: _columns(t) for n, t in tables.items()}, **{v: p.fields for v, p in views.items()}}
    context = _context(known, counted)
    try:
        parsed, optimised = _optimised(context, sql, known)
        windows, described = read_calls(optimised), optimised.display_indent().splitlines()
        counted = replace(counted, lost=lost_in_joins(parsed.display_indent()), lone=_lone_sets(optimised))
        contents = {v: Rel(View(v, plan.root), (), plan.fields) for v, plan in views.items()}
        read = read_plan(_exported(optimised, context), tables, contents, counted, windows, described)
        root = simplify(order_joins(read.root, tables, _counts(tables, row_counts or {})), tables)
    except UnknownName as error:
        if (error.kind, error.name) != ("table or view", name):
            raise
        raise place(sql, Refused("a view that reads itself", "join a fixed number of times", name)) from None
    except Refused as refused:
        raise place(sql, refused) from None
    schema = context.create_dataframe_from_logical_plan(optimised).schema()
    fields = _visible(root, read.names, schema)
    plan = to_rounds(name, root, fields, tables)
    named = _named(parsed)
    return ViewPlan(
        name,
        sql,
        plan,
        fields,
        optimised.display_indent(),
        tuple(t for t in sorted(tables) if t in named),
        tuple(v for v in sorted(views) if v in named),
        root,
        _notes(plan, read.ordered),
    )


def _named(parsed: LogicalPlan) -> set[str]:
    """What the text reads, before anything of it is left out as not needed."""
    return set(re.findall(r"^\s*TableScan: (\S+)", parsed.display_indent(), re.MULTILINE))


def _columns(table: BaseTable) -> tuple[Field, ...]:
    """The columns that a SELECT may read."""
    return tuple(Field(c.name, c.type, c.nullable and c.name not in table.key) for c in table.visible_columns)


def _notes(plan: MaintenancePlan, ordered: bool) -> tuple[str, ...]:
    """What of the text has no effect, or another one than its author may think."""
    notes = ["ORDER BY has no effect: a view is kept in the order of its key"] if ordered else []
    first = [n.spec for n in plan.nodes if isinstance(n.spec, TopK)]
    if any(not spec.order for spec in first):
        notes.append("LIMIT without ORDER BY takes the first rows by all columns, left to right")
    elif first:
        notes.append("ORDER BY tells which rows are first; the view is kept in the order of its key")
    return tuple(notes)


def _context(tables: Mapping[str, Sequence[Field]], counted: Counted) -> SessionContext:
    """A session in which every table is declared and empty."""
    context = SessionContext(SessionConfig(_SETTINGS))
    for rule in (*_RULES_LEFT_OUT, *(_RULES_OF_SETS if counted.intersect or counted.excepted else ())):
        context.remove_optimizer_rule(rule)
    for name, columns in tables.items():
        schema = pa.schema(pa.field(c.name, c.type.arrow, c.nullable) for c in columns)
        no_rows = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
        context.register_record_batches('"' + name.replace('"', '""') + '"', [[no_rows]])
    return context


def _optimised(
    context: SessionContext, sql: str, known: Mapping[str, Sequence[Field]]
) -> tuple[LogicalPlan, LogicalPlan]:
    """The text as DataFusion understands it, as it stands and optimised."""
    queries_only = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    try:
        frame = read_text(lambda text: context.sql_with_options(text, queries_only), sql)
        return frame.logical_plan(), frame.optimized_logical_plan()
    except Exception as error:
        raise explain_error(error, sql, {name: [c.name for c in columns] for name, columns in known.items()}) from None


def _exported(optimised: LogicalPlan, context: SessionContext) -> bytes:
    """The plan as Substrait; what has no form there has none in a view either."""
    try:
        return Producer.to_substrait_plan(optimised, context).encode()
    except Exception as error:
        if "OuterReferenceColumn" in str(error):
            what = "a subquery here that reads columns of the query around it"
            raise Refused(what, "write it as LEFT JOIN with a GROUP BY", "exists", "( select") from None
        if "FieldNotFound" in str(error):
            raise Refused(_IN_ON, "move it into WHERE, or into a subquery in FROM", "exists", "( select") from None
        raise Refused(f"something in this query: {plain(error)}", "use SELECT with joins and GROUP BY") from None


def _lone_sets(optimised: LogicalPlan) -> bool:
    """Whether aggregates of one set are GROUPING SETS, which have a column more than GROUP BY; the export is silent."""
    groups = re.findall(r"^\s*Aggregate: groupBy=\[\[(.*)", optimised.display_indent(), re.MULTILINE)
    sets = [by.removeprefix("GROUPING SETS (") for by in groups if by.startswith("GROUPING SETS (")]
    lone = any(_after_bracket(s).startswith(")]]") for s in sets)
    if lone and not all(by.startswith(("GROUPING SETS (", "ROLLUP (", "CUBE (")) for by in groups):
        raise Refused("GROUPING SETS with one set beside GROUP BY", "write GROUP BY", "grouping sets")
    return lone


def _after_bracket(text: str) -> str:
    """What follows the bracket that opens the text."""
    depth = 0
    for i, c in enumerate(text):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if not depth:
            return text[i + 1 :]
    return ""


def _counted(sql: str) -> Counted:
    """Which set operations of the text count how often a row occurs."""
    null_safe = holds(sql, "is", "not", "distinct") or holds(sql, "<=>")
    null_safe &= any(holds(sql, word) for word in ("exists", "semi", "anti"))
    member = any(holds(sql, "in", "(", word) for word in ("select", "with", "("))
    exists = holds(sql, "exists") or any(holds(sql, word, "(") for word in ("any", "all", "some"))
    return Counted(holds(sql, "intersect", "all"), holds(sql, "except", "all"), null_safe, member, exists)


def _counts(tables: Mapping[str, BaseTable], measured: Mapping[str, int]) -> dict[str, int]:
    """Rows of each table: as measured, else as declared."""
    declared = {name: t.rows_estimate for name, t in tables.items() if t.rows_estimate is not None}
    return {**declared, **measured}


def _visible(root: Rel, names: tuple[str, ...], schema: pa.Schema) -> tuple[Field, ...]:
    """The view's columns, after a check that our types are DataFusion's."""
    repeated = next((n for n, times in Counter(names).items() if times > 1), None)
    if repeated is not None:
        raise SqlError(f"two columns are called {repeated}; give one of them another name with AS")
    if TIMES in names:
        raise SqlError(f"a column may not be called {TIMES}; give it another name with AS")
    for ours, name, theirs in zip(root.fields, names, schema, strict=True):
        if ours.type != from_arrow(theirs.type):
            raise InternalError(f"column {name} ({ours.name}) was typed {ours.type}, but DataFusion says {theirs.type}")
    return tuple(Field(n, f.type, t.nullable) for n, f, t in zip(names, root.fields, schema))
