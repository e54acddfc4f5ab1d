"""IN and NOT IN over a subquery where NULL is neither in it nor not in it.

`x IN (s1, s2, ...)` is NULL where nothing equals x, and x or one of a non-empty list is NULL. In WHERE, NULL and false
are the same, so IN is a semi join. NOT IN is an anti join that leaves out those rows too, and where IN stands under
OR, NOT or in SELECT, its mark has three values. DataFusion does not export which anti joins are NOT IN; its own text
of the plan says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from substrait.algebra_pb2 import JoinRel
from substrait.algebra_pb2 import Rel as SubstraitRel
from substrait.plan_pb2 import Plan

from vms.model.types import BIGINT, BOOLEAN
from vms.plan.expr import Call, Case, Expr, Literal, Ref, map_refs, refs
from vms.plan.functions import may_be_null
from vms.plan.logical import Rel, conjunction, conjuncts, pair, project, ref
from vms.plan.plan import JoinKind
from vms.plan.refusals import Refused

_ANTI = (JoinRel.JOIN_TYPE_LEFT_ANTI, JoinRel.JOIN_TYPE_RIGHT_ANTI)
_ZERO = Literal(0, BIGINT)


def null_aware(plan: Plan, described: Sequence[str]) -> frozenset[bytes]:
    """The anti joins of an exported plan that are NOT IN, as `name_of` names them.

    `described`: the lines of DataFusion's text of the plan, in which joins stand in the same order.
    """
    told = [line.endswith(" null_aware") for line in described if "Anti Join:" in line]
    if not any(told):
        return frozenset()
    names = [name_of(join) for join in _anti_joins(plan.relations[0].root.input)]
    found = {name for name, aware in zip(names, told) if aware}
    if len(names) != len(told) or found & {name for name, aware in zip(names, told) if not aware}:
        raise Refused("this NOT IN (SELECT ...)", "write NOT EXISTS", "not in ( select", "not")
    return frozenset(found)


def name_of(join: JoinRel) -> bytes:
    """What tells one join from others: equal joins have equal names."""
    return bytes(join.SerializeToString(deterministic=True))


def _anti_joins(message: Any) -> Iterator[JoinRel]:
    """All anti joins in the order of DataFusion's text: what is above first, subqueries before inputs."""
    if isinstance(message, JoinRel) and message.type in _ANTI:
        yield message
    below = [(f.message_type is SubstraitRel.DESCRIPTOR, v) for f, v in message.ListFields() if f.message_type]
    for _, value in sorted(below, key=lambda found: found[0]):
        for inner in value if hasattr(value, "add") else (value,):
            yield from _anti_joins(inner)


def not_in(left: Rel, right: Rel, condition: Expr | None) -> Rel:
    """The left rows whose value is surely not in the subquery; the condition's first part is `value = item`."""
    if condition is None or not conjuncts(condition):
        raise Refused("this NOT IN (SELECT ...)", "write NOT EXISTS", "not in ( select", "not")
    rel = pair(left, right, condition, JoinKind.ANTI)
    unknown = _unknown(left, right, condition, left.width)
    return rel if unknown is None else pair(rel, *unknown, JoinKind.ANTI)


def is_in(left: Rel, right: Rel, condition: Expr) -> Rel:
    """Left rows with one column more: whether the value is in the subquery, in three values."""
    rel = pair(left, right, condition, JoinKind.MARK)
    unknown = _unknown(left, right, condition, rel.width)
    if unknown is None:
        return rel
    both = pair(rel, *unknown, JoinKind.MARK)
    true, false, null = (Literal(value, BOOLEAN) for value in (True, False, None))
    found, perhaps = ref(both, left.width), ref(both, left.width + 1)
    mark = Case(((found, true), (perhaps, null)), false, BOOLEAN)
    columns = [ref(both, i) for i in range(left.width)]
    return project(both, [*columns, mark], [f.name for f in rel.fields])


def _unknown(left: Rel, right: Rel, condition: Expr, width: int) -> tuple[Rel, Expr] | None:
    """What to join, and on which condition, to find the rows for which a NULL is met; None where there is none.

    `width`: the number of columns that stand before those of the right side then.
    """
    first, *rest = conjuncts(condition)
    value, item = _sides(first, left.width)
    if not may_be_null(value, left.fields) and not may_be_null(item, left.fields + right.fields):
        return None
    no_value = Call("is_null", (value,), BOOLEAN)
    either = Call("or", (no_value, Call("is_null", (item,), BOOLEAN)), BOOLEAN)
    whole = conjunction([*rest, either])
    assert whole is not None
    return right, map_refs(whole, lambda r: r if r.index < left.width else Ref(r.index - left.width + width, r.type))


def _sides(first: Expr, split: int) -> tuple[Expr, Expr]:
    """The value that is looked for, and the item that it is compared with."""
    if isinstance(first, Call) and first.function == "equal":
        for a, b in (first.args, first.args[::-1]):
            if max(refs(a), default=0) < split <= min(refs(b), default=-1):
                return a, b
    raise Refused("this IN (SELECT ...) or NOT IN (SELECT ...)", "write EXISTS or NOT EXISTS", "in ( select", "in")
