"""Eight numbers as one value of compiled code (Numba): a vector register, or two.

Loops over eight numbers of arrays that may overlap, as far as a compiler knows, are not vectorised; these are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # of Numba
from numba import extending
from numba.core import types
from numba.extending import models, overload, register_model

LANES = 8


def intrinsic(function: Callable[..., Any]) -> Any:
    """Its first argument is the compiler's own, and not among those of a call."""
    return extending.intrinsic(function)


VECTOR = ir.VectorType(ir.DoubleType(), LANES)
ORDER = ("reassoc", "contract", "arcp", "nsz")  # as `loops.compiled`


class EightNumbers(types.Type):
    def __init__(self) -> None:
        super().__init__(name="EightNumbers")


EIGHT = EightNumbers()


@register_model(EightNumbers)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, of_type: Any) -> None:
        super().__init__(manager, of_type, VECTOR)  # type: ignore[no-untyped-call]


def _place(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    """Where the eight numbers from number `at` on are, of a C-ordered array of any shape."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), VECTOR.as_pointer())


def _flat(array: Any) -> bool:
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.float64


@intrinsic
def load(typing_context: Any, array: Any, at: Any) -> Any:
    """Numbers at .. at + 7 of an array."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *given), align=8)

    return (EIGHT(array, types.intp), code) if _flat(array) else None


@intrinsic
def store(typing_context: Any, array: Any, at: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.store(given[2], _place(context, builder, signature.args[0], given[0], given[1]), align=8)
        return context.get_dummy_value()

    return (types.void(array, types.intp, EIGHT), code) if _flat(array) else None


@intrinsic
def all_of(typing_context: Any, number: Any) -> Any:
    """Eight times the same."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), given[0], ir.Constant(ir.IntType(32), 0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, ir.Constant(VECTOR, ir.Undefined), mask)

    return EIGHT(types.float64), code


@intrinsic
def where_positive(typing_context: Any, which: Any, value: Any, other: Any) -> Any:
    """value where `which` is above zero, else other."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        above = builder.fcmp_ordered(">", given[0], ir.Constant(VECTOR, [0.0] * LANES))
        return builder.select(above, given[1], given[2])

    return EIGHT(EIGHT, EIGHT, EIGHT), code


@intrinsic
def any_positive(typing_context: Any, which: Any) -> Any:
    """Whether any of the eight is above zero."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        above = builder.fcmp_ordered(">", given[0], ir.Constant(VECTOR, [0.0] * LANES))
        bits = builder.bitcast(above, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(EIGHT), code


@intrinsic
def largest(typing_context: Any, a: Any, b: Any) -> Any:
    """The larger number of both, eight times."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *given), *given)

    return EIGHT(EIGHT, EIGHT), code


@intrinsic
def total(typing_context: Any, a: Any) -> Any:
    """The sum of the eight."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        parts = [builder.extract_element(given[0], ir.Constant(ir.IntType(32), b)) for b in range(LANES)]
        while len(parts) > 1:
            parts = [builder.fadd(x, y, ORDER) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return types.float64(EIGHT), code


def _arithmetic(symbol: Any, name: str) -> None:
    """a symbol b of two vectors, number by number."""

    @intrinsic
    def both(typing_context: Any, a: Any, b: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return getattr(builder, name)(*given, ORDER)

        return EIGHT(EIGHT, EIGHT), code

    @overload(symbol)
    def of_vectors(a: Any, b: Any) -> Any:
        if isinstance(a, EightNumbers) and isinstance(b, EightNumbers):

            def implementation(a: Any, b: Any) -> Any:
                return both(a, b)

            return implementation
        return None


OPERATORS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}
for _symbol, _name in OPERATORS.items():
    _arithmetic(_symbol, _name)
