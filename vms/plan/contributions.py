"""What travels between PreAggregation and Aggregation: the layout of the accumulators (thesis 4.4).

A contribution row is: the group columns, then one column for each accumulator, in this fixed order

| accumulator | type | holds |
|---|---|---|
| `rows` | BIGINT | sum of the weights: how many rows joined (or left) the group; always there, always first |
| `count` of x | BIGINT | the same over the rows where x is not NULL; only where x may be NULL |
| `sum` of x | DECIMAL(38, s) | sum of x times weight, NULL as 0; for integers and truth values (s = 0) and decimals |
| `square` of x | DECIMAL(38, 0) | the same of the square of x's code, for variances; the low word if there are two |
| `square_high` of x | DECIMAL(38, 0) | the rest of the square, over 2**64; only where squares need more than 64 bits |
| `value` of x | type of x | x itself, NULL where x is; for min, max, and for sums, means and variances of DOUBLE |

Everything after `rows` stands once for each distinct argument, however many calls use it: all counts, then
all sums, the squares, then all values, each in the order in which the calls first name their argument.

The weight of every contribution row is 1: an update inside a group changes its sum although its number of
rows stays, so the weight cannot carry the number of rows. Rows of one batch with equal group columns *and*
equal values are combined by adding `rows`, counts and sums; with no `value` that is one row for each group.
A value stands for `rows` occurrences of it (fewer than none: that many taken away).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from vms.errors import InternalError
from vms.model.types import BIGINT, MAX_NARROW_PRECISION, MAX_PRECISION, Kind, SqlType, decimal
from vms.plan.functions import SUMMED, VARIANCES
from vms.plan.plan import Aggregate, Aggregation, Exchange, Field, MaintenancePlan, Node, PreAggregation


class AccumulatorKind(Enum):
    """What an accumulator column holds (see the table above)."""

    ROWS = "rows"
    COUNT = "count"
    SUM = "sum"
    SQUARE = "square"
    SQUARE_HIGH = "square_high"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One accumulator column. `arg` is the column of PreAggregation's input that it is made from."""

    kind: AccumulatorKind
    arg: int | None
    type: SqlType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class CallInputs:
    """Where one aggregate call finds what it needs: positions in `Layout.accumulators`.

    `count`: the number of rows where the argument is not NULL (that of `rows` where it cannot be NULL or for
    count(*)). `sum` is set for all but min, max and count of exact types and truth values, `squares` (one or two) for
    variances of them; `value` for min, max, and for all but count of DOUBLE.
    """

    count: int | None
    sum: int | None = None
    value: int | None = None
    squares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The accumulators of a PreAggregation and its Aggregation. Accumulator i is column group_count + i."""

    group_count: int
    accumulators: tuple[Accumulator, ...]
    calls: tuple[CallInputs, ...]

    def positions(self, kind: AccumulatorKind) -> tuple[int, ...]:
        """The accumulators of one kind."""
        return tuple(i for i, a in enumerate(self.accumulators) if a.kind is kind)


def exact(t: SqlType) -> bool:
    """Whether sums of this type are kept as exact integers."""
    return t.kind in (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.BOOLEAN)


def _small_squares(t: SqlType) -> bool:
    """Whether the square of every code fits 64 bits."""
    return t.kind is Kind.INTEGER or (t.kind is Kind.DECIMAL and t.precision <= MAX_NARROW_PRECISION // 2)


def layout(group_count: int, calls: Sequence[Aggregate], input_fields: Sequence[Field]) -> Layout:
    """The layout for `calls`, whose arguments are columns of `input_fields` (PreAggregation's input)."""
    counts: dict[int, Accumulator] = {}
    sums: dict[int, Accumulator] = {}
    squares: dict[tuple[AccumulatorKind, int], Accumulator] = {}
    values: dict[int, Accumulator] = {}
    for call in calls:
        if call.arg is None:
            continue
        arg, field = call.arg, input_fields[call.arg]
        if call.function not in ("min", "max") and field.nullable:
            counts[arg] = Accumulator(AccumulatorKind.COUNT, arg, BIGINT)
        if call.function in SUMMED and exact(field.type):
            sums[arg] = Accumulator(AccumulatorKind.SUM, arg, decimal(MAX_PRECISION, field.type.scale))
            if call.function in VARIANCES:
                kinds = (AccumulatorKind.SQUARE, AccumulatorKind.SQUARE_HIGH)
                for kind in kinds[: 1 if _small_squares(field.type) else 2]:
                    squares[kind, arg] = Accumulator(kind, arg, decimal(MAX_PRECISION, 0))
        elif call.function != "count":
            values[arg] = Accumulator(AccumulatorKind.VALUE, arg, field.type, field.nullable)
    accumulators = (
        Accumulator(AccumulatorKind.ROWS, None, BIGINT),
        *counts.values(),
        *sums.values(),
        *squares.values(),
        *values.values(),
    )
    position = {(a.kind, a.arg): i for i, a in enumerate(accumulators)}

    def inputs(call: Aggregate) -> CallInputs:
        if call.function in ("min", "max"):
            return CallInputs(None, value=position[AccumulatorKind.VALUE, call.arg])
        count = position.get((AccumulatorKind.COUNT, call.arg), 0)
        if call.function == "count":
            return CallInputs(count)
        if (AccumulatorKind.SUM, call.arg) not in position:
            return CallInputs(count, value=position[AccumulatorKind.VALUE, call.arg])
        parts = [(kind, call.arg) for kind in (AccumulatorKind.SQUARE, AccumulatorKind.SQUARE_HIGH)]
        found = tuple(position[p] for p in parts if p in position) if call.function in VARIANCES else ()
        return CallInputs(count, position[AccumulatorKind.SUM, call.arg], squares=found)

    return Layout(group_count, accumulators, tuple(inputs(c) for c in calls))


def contribution_fields(group_fields: Sequence[Field], made: Layout) -> tuple[Field, ...]:
    """The output columns of PreAggregation."""
    return (
        *group_fields,
        *(
            Field(a.kind.value if a.arg is None else f"{a.kind.value}_{a.arg}", a.type, a.nullable)
            for a in made.accumulators
        ),
    )


def layout_of(plan: MaintenancePlan, node: Node) -> Layout:
    """The layout of a PreAggregation node, or of the Aggregation node that it feeds."""
    below = node
    while isinstance(below.spec, Aggregation | Exchange):
        below = plan.node(below.inputs[0])
    if not isinstance(below.spec, PreAggregation):
        raise InternalError(f"{node.id} is not fed by a PreAggregation")
    return layout(len(below.spec.group), below.spec.calls, plan.node(below.inputs[0]).fields)
