"""Where each operation runs: exchanges and local pre-aggregation (thesis 4.3.1, DistributionRound).

Rows of a base table start at the owner of the slot of their key. A stateful operation needs the rows that
meet in it at one member: a join those of one join key, an aggregation those of one group, the view those of
one view key. Wherever the rows are not spread that way already, an Exchange starts a new round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vms.errors import InternalError
from vms.model.table import BaseTable
from vms.model.types import BIGINT
from vms.plan.contributions import contribution_fields, layout
from vms.plan.keys import Equal, key_of, merge_equal, through
from vms.plan.logical import Group, Rel, View
from vms.plan.plan import (
    Aggregate,
    Aggregation,
    Exchange,
    Field,
    Join,
    JoinKind,
    MaintenancePlan,
    Node,
    Output,
    PreAggregation,
    Projection,
    Repetition,
    Selection,
    Source,
    Spec,
    TopK,
    Union,
    Window,
    make_node,
)

#: Name of the last column of a view whose rows have no key: how often the row occurs.
TIMES = "_times"
#: Spread of rows: the columns whose slot decides, in order, each with the columns equal to it. () means that
#: all rows are in one place; None that no columns tell where a row is.
Spread = tuple[Equal, ...] | None


@dataclass(frozen=True)
class _Placed:
    node: Node
    spread: Spread


def to_rounds(view: str, rel: Rel, fields: tuple[Field, ...], tables: Mapping[str, BaseTable]) -> MaintenancePlan:
    """The plan of a view whose visible columns are those of `rel`, called and typed as `fields`."""
    builder = _Builder(tables)
    placed = builder.place(rel)
    key = key_of(rel, tables)
    bag = key is None
    if key is None:
        columns = tuple(range(rel.width))
        placed = builder.aggregate(
            placed, columns, (Aggregate("count", None, BIGINT),), (*fields, Field(TIMES, BIGINT, False))
        )
        fields = placed.node.fields
    else:
        columns = tuple(dict.fromkeys(min(component) for component in key))
        placed = builder.gathered(placed, columns)
    builder.add(Output(view, columns, bag), (placed,), fields, placed.spread)
    return MaintenancePlan(tuple(builder.nodes.values()))


class _Builder:
    def __init__(self, tables: Mapping[str, BaseTable]) -> None:
        self._tables = tables
        self.nodes: dict[str, Node] = {}

    def add(self, spec: Spec, inputs: Sequence[_Placed], fields: tuple[Field, ...], spread: Spread) -> _Placed:
        columns = None if spread is None else tuple(min(component) for component in spread)
        node = make_node(spec, [i.node for i in inputs], fields, columns)
        return _Placed(self.nodes.setdefault(node.id, node), spread)

    def place(self, rel: Rel) -> _Placed:
        """The operations of one relation and of all below it."""
        spec = rel.spec
        match spec:
            case Source():
                return self.add(spec, (), rel.fields, self._key_spread(spec))
            case View():
                return self.place(spec.root)
            case Selection() | Repetition():
                below = self.place(rel.input)
                return self.add(spec, (below,), rel.fields, below.spread)
            case Union():
                return self._union(spec, [self.place(i) for i in rel.inputs], rel.fields)
            case Projection():
                below = self.place(rel.input)
                spread = None if below.spread is None else through(below.spread, spec.exprs)
                return self.add(spec, (below,), rel.fields, spread)
            case Group():
                return self.aggregate(self.place(rel.input), spec.group, spec.calls, rel.fields)
            case Join():
                return self._join(spec, self.place(rel.inputs[0]), self.place(rel.inputs[1]), rel.fields)
            case TopK():
                return self._top_k(spec, self.place(rel.input))
            case Window():
                there = self.gathered(self.place(rel.input), spec.partition)
                return self.add(spec, (there,), rel.fields, there.spread)
        raise InternalError(f"{type(spec).__name__} cannot be placed")

    def _union(self, spec: Union, inputs: Sequence[_Placed], fields: tuple[Field, ...]) -> _Placed:
        """Rows stay where they are: the result is spread by columns only where every input is, by the same."""
        spreads = [i.spread for i in inputs]
        columns = [None if s is None else [min(component) for component in s] for s in spreads]
        alike = columns[0] is not None and all(c == columns[0] for c in columns)
        spread = tuple(frozenset({c}) for c in columns[0] or ()) if alike else None
        return self.add(spec, inputs, fields, spread)

    def _key_spread(self, source: Source) -> Spread:
        key = self._tables[source.table].key
        if not set(key) <= set(source.columns):
            return None
        return tuple(frozenset({source.columns.index(k)}) for k in key)

    def exchange(self, placed: _Placed, columns: tuple[int, ...]) -> _Placed:
        """Spread by exactly these columns, in this order."""
        if columns and _arranged(placed.spread, columns) == tuple(range(len(columns))):
            return placed
        spread = tuple(frozenset({c}) for c in columns)
        return self.add(Exchange(columns), (placed,), placed.node.fields, spread)

    def gathered(self, placed: _Placed, columns: tuple[int, ...]) -> _Placed:
        """Rows that agree in `columns` at one member."""
        if placed.spread is not None and (bool(placed.spread) or not columns):
            wanted = set(columns)
            if all(component & wanted for component in placed.spread):
                return placed
        return self.exchange(placed, columns)

    def aggregate(
        self, placed: _Placed, group: tuple[int, ...], calls: tuple[Aggregate, ...], fields: tuple[Field, ...]
    ) -> _Placed:
        """Contributions are combined where the rows are, travel if they must, and are summed up there."""
        made = layout(len(group), calls, placed.node.fields)
        spread: Spread = None
        if placed.spread:
            inside = [frozenset(group.index(c) for c in component if c in group) for component in placed.spread]
            spread = tuple(inside) if all(inside) else None
        columns = contribution_fields(fields[: len(group)], made)
        local = self.add(PreAggregation(group, calls), (placed,), columns, spread)
        there = self.gathered(local, tuple(range(len(group))))
        return self.add(Aggregation(len(group), calls), (there,), fields, there.spread)

    def _join(self, spec: Join, left: _Placed, right: _Placed, fields: tuple[Field, ...]) -> _Placed:
        """Key pairs are ordered as a side is spread already, so that it can stay where it is."""
        order = _arranged(left.spread, spec.left_keys) or _arranged(right.spread, spec.right_keys)
        pairs = list(zip(spec.left_keys, spec.right_keys))
        pairs = pairs if order is None else [pairs[i] for i in order]
        left_keys, right_keys = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
        if spec.replicated:
            left = self._spread_out(left)
            right = self.add(Exchange((), everywhere=True), (right,), right.node.fields, None)
        elif not pairs:
            left, right = self.gathered(left, ()), self.gathered(right, ())
        else:
            left, right = self.exchange(left, left_keys), self.exchange(right, right_keys)
        shift = len(left.node.fields)
        same = [(a, b + shift) for a, b in pairs] if spec.kind is JoinKind.INNER else []
        spread = None if spec.kind is JoinKind.FULL else merge_each(left.spread, same)
        return self.add(replace(spec, left_keys=left_keys, right_keys=right_keys), (left, right), fields, spread)

    def _spread_out(self, placed: _Placed) -> _Placed:
        """Each row where some columns of it say: rows of one slot must stay together when it moves."""
        return placed if placed.spread is not None else self.exchange(placed, tuple(range(len(placed.node.fields))))

    def _top_k(self, spec: TopK, placed: _Placed) -> _Placed:
        """Every member finds its own first rows, and only these travel to the one that finds the first of all."""
        fields = placed.node.fields
        if spec.limit is not None and placed.spread != ():
            placed = self._spread_out(placed)
            placed = self.add(TopK(spec.order, 0, spec.offset + spec.limit), (placed,), fields, placed.spread)
        there = self.gathered(placed, ())
        return self.add(spec, (there,), fields, ())


def merge_each(spread: Spread, pairs: Sequence[tuple[int, int]]) -> Spread:
    """Every component with the columns that a join made equal to it; the order of components stays."""
    return None if spread is None else tuple(merge_equal((component,), pairs)[0] for component in spread)


def _arranged(spread: Spread, keys: Sequence[int]) -> tuple[int, ...] | None:
    """The order of `keys` in which the rows are spread by exactly them, if they are."""
    if spread is None or len(spread) != len(keys):
        return None
    order: list[int] = []
    for component in spread:
        found = [i for i, k in enumerate(keys) if k in component and i not in order]
        if not found:
            return None
        order.append(found[0])
    return tuple(order)
