"""Expressions of `vms.plan.expr` evaluated column by column with numpy (design section 5).

`Evaluator` compiles expressions into steps over `Value`s; the steps' functions are grouped by subject:
arithmetic, logic, text, casts. Failures are data (design 3.5): an evaluation marks rows, it never raises.
"""

from vms.maintenance.expressions.evaluator import Evaluated, Evaluator, compile_predicate, describe, true_rows

__all__ = ["Evaluated", "Evaluator", "compile_predicate", "describe", "true_rows"]
