"""What values are in a text, and what operators of PyTorch are there: a line of OpenCL C each, of numbers, of whole
numbers, of truths."""
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from ._errors import Unsupported

NUMBER, INDEX, TRUTH = "number", "index", "truth"


class Value(NamedTuple):
    """What a node is in the text."""

    kind: str
    text: str
    is_natural: bool = False  # an INDEX that is never below 0
    constant: Any = None  # its number where the text has it


class Part(NamedTuple):
    """A captured tensor some of whose first axes are indexed."""

    name: str
    kind: str
    place: str
    shape: Tuple[int, ...]  # of the axes that are left


class Array(NamedTuple):
    """A small tensor that depends on the pair."""

    elements: List[Value]
    shape: Tuple[int, ...]


def kind_of(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return TRUTH
    if dtype.is_complex:
        raise Unsupported("complex numbers: a score is made of real ones")
    return NUMBER if dtype.is_floating_point else INDEX


def name_of(node: Any) -> str:
    """The operator's, without aten:: in front."""
    schema = getattr(node.target, "_schema", None)
    return schema.name.rpartition("::")[2] if schema is not None else str(node.target)


class Line(NamedTuple):
    """An operator: `of` the kind that its operands become, or None: that of the result; `text` of numbers, `whole` of
    whole numbers, None where there is none."""

    of: Optional[str]
    text: Optional[str]
    whole: Optional[str] = None
    is_natural: bool = False  # where all operands are


def _both(text: str, is_natural: bool = False) -> Line:
    return Line(None, text, text, is_natural)


def _function(name: str) -> Line:
    return Line(NUMBER, f"{name}({{0}})")


def _compared(sign: str) -> Line:
    return Line("compared", f"({{0}} {sign} {{1}})", f"({{0}} {sign} {{1}})")


_LARGER = "WHERE(({0} > {1}) | ({0} != {0}), {0}, {1})"  # also NaN, as PyTorch has it
_SMALLER = "WHERE(({0} < {1}) | ({0} != {0}), {0}, {1})"
REMAINDER = "fmod({0}, {1})"
_SIGN = Line(None, "WHERE({0} > 0, (NUMBER)(1), WHERE({0} < 0, (NUMBER)(-1), {0} * 0))",
             "WHERE({0} > 0, (INDEX)(1), WHERE({0} < 0, (INDEX)(-1), (INDEX)(0)))")

LINES: Dict[str, Line] = {
    "add": _both("{0} + {1}", True), "sub": _both("{0} - {1}"), "rsub": _both("{1} - {0}"),
    "mul": _both("{0} * {1}", True), "div": Line(NUMBER, "{0} / {1}"), "neg": _both("-{0}"),
    "reciprocal": Line(NUMBER, "1 / {0}"), "abs": Line(None, "fabs({0})", "WHERE({0} < 0, -{0}, {0})"),
    "sign": _SIGN, "sgn": _SIGN,
    "square": _both("{0} * {0}"), "relu": Line(None, "WHERE({0} < 0, (NUMBER)(0), {0})", "max({0}, (INDEX)(0))"),
    "exp": _function("exp"), "exp2": _function("exp2"), "expm1": _function("expm1"), "log": _function("log"),
    "log2": _function("log2"), "log10": _function("log10"), "log1p": _function("log1p"), "sqrt": _function("sqrt"),
    "rsqrt": Line(NUMBER, "1 / sqrt({0})"), "tanh": _function("tanh"), "sin": _function("sin"), "cos": _function("cos"),
    "tan": _function("tan"), "atan": _function("atan"), "erf": _function("erf"), "sinh": _function("sinh"),
    "cosh": _function("cosh"), "erfc": _function("erfc"), "acos": _function("acos"), "asin": _function("asin"),
    "acosh": _function("acosh"), "asinh": _function("asinh"), "atanh": _function("atanh"),
    "sigmoid": Line(NUMBER, "1 / (1 + exp(-{0}))"),
    "silu": Line(NUMBER, "{0} / (1 + exp(-{0}))"),
    "floor": Line(None, "floor({0})", "{0}"), "ceil": Line(None, "ceil({0})", "{0}"),
    "round": Line(None, "rint({0})", "{0}"), "trunc": Line(None, "trunc({0})", "{0}"),
    "maximum": Line(None, _LARGER, "max({0}, {1})"), "minimum": Line(None, _SMALLER, "min({0}, {1})", True),
    "clamp_min": Line(None, _LARGER, "max({0}, {1})"), "clamp_max": Line(None, _SMALLER, "min({0}, {1})", True),
    "hypot": Line(NUMBER, "hypot({0}, {1})"), "copysign": Line(NUMBER, "copysign({0}, {1})"),
    "signbit": Line(NUMBER, "(copysign((NUMBER)(1), {0}) < 0)", "({0} < 0)"),
    "pow": Line(NUMBER, "pow({0}, {1})"), "atan2": Line(NUMBER, "atan2({0}, {1})"), "fmod": Line(NUMBER, REMAINDER),
    "eq": _compared("=="), "ne": _compared("!="), "lt": _compared("<"), "le": _compared("<="), "gt": _compared(">"),
    "ge": _compared(">="),
    "logical_and": Line(TRUTH, "{0} & {1}"), "logical_or": Line(TRUTH, "{0} | {1}"),
    "logical_xor": Line(TRUTH, "{0} ^ {1}"), "logical_not": Line(TRUTH, "({0} == 0)"),
    "isnan": Line(NUMBER, "({0} != {0})"), "isinf": Line(NUMBER, "(fabs({0}) == INFINITY)"),
    "bitwise_and": Line(None, None, "{0} & {1}", True), "bitwise_or": Line(None, None, "{0} | {1}", True),
    "bitwise_xor": Line(None, None, "{0} ^ {1}", True), "bitwise_not": Line(None, None, "~{0}"),
    "bitwise_left_shift": Line(None, None, "{0} << {1}"), "bitwise_right_shift": Line(None, None, "{0} >> {1}", True),
    "__lshift__": Line(None, None, "{0} << {1}"), "__rshift__": Line(None, None, "{0} >> {1}", True),
}
FILLED = {"full_like", "zeros_like", "ones_like", "empty_like", "fill", "new_full", "new_zeros", "new_ones"}
TRUTH_OF = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
             "bitwise_not": "logical_not", "mul": "logical_and", "add": "logical_or"}  # what they are of truths
