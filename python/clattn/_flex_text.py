"""A graph of PyTorch's operators on one pair of a row and a key as a text in OpenCL C (include/clattn_code.h).

Each operator is a line of _LINES. A value is a number (NUMBER), a whole number (INDEX) or a truth (INDEX, not 0 where
it is true: -1 on lanes, else 1), each in a variable of its own; nothing branches, so that the text can be compiled for
sixteen pairs at once. What does not depend on the pair is left to the caller, who computes it for each call.
"""
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ._code import MOST
from ._errors import Unsupported

NUMBER, INDEX, TRUTH = "number", "index", "truth"
_DECLARED = {NUMBER: "NUMBER", INDEX: "INDEX", TRUTH: "INDEX"}


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
_REMAINDER = "fmod({0}, {1})"
_SIGN = Line(None, "WHERE({0} > 0, (NUMBER)(1), WHERE({0} < 0, (NUMBER)(-1), {0} * 0))",
             "WHERE({0} > 0, (INDEX)(1), WHERE({0} < 0, (INDEX)(-1), (INDEX)(0)))")

_LINES: Dict[str, Line] = {
    "add": _both("{0} + {1}", True), "sub": _both("{0} - {1}"), "rsub": _both("{1} - {0}"), 
    "mul": _both("{0} * {1}", True), "div": Line(NUMBER, "{0} / {1}"), "neg": _both("-{0}"),
    "reciprocal": Line(NUMBER, "1 / {0}"), "abs": Line(None, "fabs({0})", "WHERE({0} < 0, -{0}, {0})"),
    "sign": _SIGN, "sgn": _SIGN,
    "square": _both("{0} * {0}"), "relu": Line(None, "WHERE({0} < 0, (NUMBER)(0), {0})", "max({0}, (INDEX)(0))"),
    "exp": _function("exp"), "exp2": _function("exp2"), "expm1": _function("expm1"), "log": _function("log"),
    "log2": _function("log2"), "log10": _function("log10"), "log1p": _function("log1p"), "sqrt": _function("sqrt"),
    "rsqrt": Line(NUMBER, "1 / sqrt({0})"), "tanh": _function("tanh"), "sin": _function("sin"), "cos": _function("cos"),
    "tan": _function("tan"), "atan": _function("atan"), "erf": _function("erf"), "sinh": _function("sinh"),
    "cosh": _function("cosh"), "sigmoid": Line(NUMBER, "1 / (1 + exp(-{0}))"),
    "silu": Line(NUMBER, "{0} / (1 + exp(-{0}))"),
    "floor": Line(None, "floor({0})", "{0}"), "ceil": Line(None, "ceil({0})", "{0}"),
    "round": Line(None, "rint({0})", "{0}"), "trunc": Line(None, "trunc({0})", "{0}"),
    "maximum": Line(None, _LARGER, "max({0}, {1})"), "minimum": Line(None, _SMALLER, "min({0}, {1})", True),
    "clamp_min": Line(None, _LARGER, "max({0}, {1})"), "clamp_max": Line(None, _SMALLER, "min({0}, {1})", True),
    "pow": Line(NUMBER, "pow({0}, {1})"), "atan2": Line(NUMBER, "atan2({0}, {1})"), "fmod": Line(NUMBER, _REMAINDER),
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
_TRUTH_OF = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
             "bitwise_not": "logical_not", "mul": "logical_and", "add": "logical_or"}  # what they are of truths
_THE_SAME = {"clone", "detach", "alias", "lift_fresh_copy", "view", "reshape", "expand", "squeeze", "contiguous"}


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


class Writer:
    """Writes the functions of one text. `lengths`: what i and j stay below, and the heads' and the batch's numbers."""

    def __init__(self, is_float64: bool, lengths: Dict[str, int]) -> None:
        self.is_float64, self.lengths = is_float64, lengths
        self.tensors: List[Any] = []  # nodes, or what else the caller loads of; in the order of their names
        self.captured: Dict[Any, Any] = {}  # the first node of each captured tensor, which several functions may load
        self.scalars: List[Tuple[Any, str]] = []  # (node or number, how it is given: "", "high" or "low")
        self.functions: List[str] = []
        self.source = ""
        self.lines: List[str] = []
        self.values: Dict[Any, Any] = {}

    # ---- what a call gives ----

    def tensor(self, of: Any) -> str:
        if of not in self.tensors:
            if len(self.tensors) == MOST:
                raise Unsupported(f"captured tensors: more than {MOST}; put some of them together into one")
            self.tensors.append(of)
        return f"tensor_{self.tensors.index(of)}"

    def scalar(self, of: Any, part: str = "") -> str:
        key = of, part
        if key not in self.scalars:
            if len(self.scalars) == MOST:
                raise Unsupported(f"captured numbers: more than {MOST} (a whole number counts twice); put them into "
                                  "a tensor")
            self.scalars.append(key)
        return f"SCALAR(scalar_{self.scalars.index(key)})"

    def given(self, node: Any) -> Any:
        """A node that does not depend on the pair: its number or tensor is the call's."""
        node = self.captured.setdefault(node.meta.get("captured", node), node)
        found = node.meta["val"]
        kind = kind_of(found.dtype)
        if found.dim() or (self.is_float64 and kind == NUMBER):
            part = Part(self.tensor(node), kind, "", tuple(found.shape))
            return part if found.dim() else self.load(part._replace(place="0"))
        if kind == NUMBER:
            return self.variable(NUMBER, f"(NUMBER)({self.scalar(node)})")
        high, low = (f"TO_INDEX((NUMBER)({self.scalar(node, part)}))" for part in ("high", "low"))
        whole = self.variable(INDEX, f"{high} * 65536 + {low}")
        return whole if kind == INDEX else self.variable(TRUTH, f"({whole.text} != 0)")

    # ---- values ----

    def variable(self, kind: str, text: str, is_natural: bool = False) -> Value:
        name = f"v{len(self.lines)}"
        self.lines.append(f"    const {_DECLARED[kind]} {name} = {text};")
        return Value(kind, name, is_natural)

    def constant(self, number: Any, kind: str) -> Value:
        if kind == TRUTH:
            return Value(TRUTH, "((INDEX)(0) == 0)" if number else "((INDEX)(0) != 0)", constant=bool(number))
        if kind == INDEX:
            if not -2**31 < number < 2**31:
                raise Unsupported(f"the whole number {number}: must fit 32 bits")
            return Value(INDEX, f"(INDEX)({int(number)})", number >= 0, int(number))
        number = float(number)
        text = "NAN" if math.isnan(number) else repr(number) if math.isfinite(number) else \
            "INFINITY" if number > 0 else "-INFINITY"
        return Value(NUMBER, f"(NUMBER)({text})", constant=number)

    def value(self, of: Any) -> Any:
        """A node's, or that of a number of Python's."""
        if isinstance(of, torch.fx.Node):
            return self.values[of]
        return self.constant(of, TRUTH if isinstance(of, bool) else INDEX if isinstance(of, int) else NUMBER)

    def as_kind(self, value: Any, kind: str) -> Value:
        if isinstance(value, Part):
            raise Unsupported(f"a captured tensor of shape {list(value.shape)}: must be indexed down to one element")
        if value.kind == kind:
            return value  # type: ignore[no-any-return]
        if value.constant is not None:
            return self.constant(bool(value.constant) if kind == TRUTH else int(value.constant) if kind == INDEX
                                 else value.constant, kind)
        if kind == TRUTH:
            return Value(TRUTH, f"({value.text} != 0)")
        if value.kind == TRUTH:
            ones = f"(({value.text}) & 1)"
            return Value(kind, ones if kind == INDEX else f"TO_NUMBER({ones})", True)
        return Value(kind, f"TO_{kind.upper()}({value.text})")

    # ---- captured tensors ----

    def length(self, count: int) -> str:
        """A number of the text; a scalar where it is a sequence's, so that a longer one compiles nothing."""
        if count in (self.lengths["i"], self.lengths["j"]) and 8 < count < 2**24 and len(self.scalars) < MOST - 2:
            return f"TO_INDEX((NUMBER)({self.scalar(count)}))"
        return f"(INDEX)({count})"

    def within(self, index: Value, count: int) -> str:
        """The index, from the end where it is below 0, and never outside of the tensor: the text is asked about pairs
        that masks hide, too."""
        if count < 1:
            raise Unsupported("a captured tensor without elements: is indexed")
        if index.constant is not None:
            if not -count <= index.constant < count:
                raise IndexError(f"index {index.constant}: is out of bounds of an axis of {count}")
            return f"(INDEX)({index.constant % count})"
        most = self.lengths.get(index.text)
        if most is not None:
            if most > count:
                raise IndexError(f"index {index.text}, up to {most - 1}: is out of bounds of an axis of {count}")
            return index.text
        from_end = index.text
        if not index.is_natural:
            from_end = f"WHERE({from_end} < 0, {from_end} + {self.length(count)}, {from_end})"
        return f"clamp({from_end}, (INDEX)(0), {self.length(count)} - 1)"

    def load(self, part: Part) -> Value:
        found = self.variable(part.kind if part.kind != TRUTH else INDEX, f"LOAD({part.name}, {part.place})")
        return self.variable(TRUTH, f"({found.text} != 0)") if part.kind == TRUTH else found

    def index(self, node: Any) -> Any:
        part, indices = self.values[node.args[0]], node.args[1]
        if not isinstance(part, Part):
            raise Unsupported("index: of something else than a captured tensor")
        if len(indices) > len(part.shape) or any(x is None for x in indices):
            raise Unsupported("index: a captured tensor is indexed by one number for each of its first axes")
        place = part.place
        for of, count in zip(indices, part.shape):
            at = self.as_kind(self.value(of), INDEX)
            if isinstance(of, torch.fx.Node) and (of.meta["val"].dim() or kind_of(of.meta["val"].dtype) != INDEX):
                raise Unsupported("index: by something else than a whole number")
            before = f"({place}) * {self.length(count)} + " if place else ""
            place = self.variable(INDEX, before + self.within(at, count), True).text
        left = part._replace(place=place, shape=part.shape[len(indices):])
        return left if left.shape else self.load(left)

    # ---- operators that are more than a line ----

    def dot(self, a: Any, b: Any) -> Value:
        """That of two rows of captured tensors."""
        if not (isinstance(a, Part) and isinstance(b, Part)):
            raise Unsupported("dot: of something else than rows of captured tensors")
        if a.shape[0] > 192:  # each three lines, here and in the slope, of 65536 bytes
            raise Unsupported(f"dot: of rows of {a.shape[0]} elements; must be at most 192")
        def element(x: Part, n: int) -> str:
            return self.as_kind(self.load(x._replace(place=f"({x.place or 0}) * {x.shape[0]} + {n}")), NUMBER).text
        terms = [f"{element(a, n)} * {element(b, n)}" for n in range(a.shape[0])]
        return self.variable(NUMBER, " + ".join(terms) or "(NUMBER)(0)")

    def floor_divide(self, a: Value, b: Value) -> Value:
        if a.kind == NUMBER:
            return self.variable(NUMBER, f"floor({a.text} / {b.text})")
        if b.constant == 0:
            raise ZeroDivisionError("floor_divide: by 0")
        if b.constant is not None and b.constant > 0 and b.constant & (b.constant - 1) == 0:
            return self.variable(INDEX, f"{a.text} >> {b.constant.bit_length() - 1}", a.is_natural)
        by = self.divisor(b)
        if a.is_natural and b.is_natural:
            return self.variable(INDEX, f"{a.text} / {by}", True)
        return self.variable(INDEX, f"{a.text} / {by} - WHERE(({a.text} % {by} != 0) & "
                                    f"(({a.text} ^ {by}) < 0), (INDEX)(1), (INDEX)(0))")

    def divisor(self, b: Value) -> str:
        """Never 0, by which a processor would stop the program; the result there is any number."""
        if b.constant is not None:
            return b.text
        return self.variable(INDEX, f"WHERE({b.text} == 0, (INDEX)(1), {b.text})").text

    def remainder(self, a: Value, b: Value) -> Value:
        if a.kind == NUMBER:
            rest = self.variable(NUMBER, _REMAINDER.format(a.text, b.text)).text
            return self.variable(NUMBER, f"WHERE(({rest} != 0) & (({b.text} < 0) != ({rest} < 0)), "
                                         f"{rest} + {b.text}, {rest})")
        if b.constant == 0:
            raise ZeroDivisionError("remainder: by 0")
        if b.constant is not None and b.constant > 0 and b.constant & (b.constant - 1) == 0:
            return self.variable(INDEX, f"{a.text} & {b.constant - 1}", True)
        by = self.divisor(b)
        if a.is_natural and b.is_natural:
            return self.variable(INDEX, f"{a.text} % {by}", True)
        rest = self.variable(INDEX, f"{a.text} % {by}").text
        return self.variable(INDEX, f"WHERE(({rest} != 0) & (({rest} ^ {by}) < 0), {rest} + {by}, {rest})",
                             b.constant is not None and b.constant > 0)

    def power(self, a: Value, b: Value, kind: str) -> Value:
        exponent = b.constant
        if exponent in (0, 1, 2, 3, 4):
            base = self.as_kind(a, kind).text
            return self.variable(kind, " * ".join([base] * int(exponent)) or self.constant(1, kind).text)
        if kind == INDEX:
            raise Unsupported("pow: of whole numbers, only by 0 to 4; make the first a floating-point number")
        a, b = self.as_kind(a, NUMBER), self.as_kind(b, NUMBER)
        if exponent == 0.5:
            return self.variable(NUMBER, f"sqrt({a.text})")
        if exponent == -1:
            return self.variable(NUMBER, f"1 / {a.text}")
        return self.variable(NUMBER, f"exp2({b.text})" if a.constant == 2 else f"pow({a.text}, {b.text})")

    def converted(self, node: Any) -> Value:
        kind = kind_of(node.meta["val"].dtype)
        if kind == INDEX and node.meta["val"].dtype not in (torch.int32, torch.int64):
            raise Unsupported(f"a conversion to {node.meta['val'].dtype}: give int32 or int64")
        found = self.as_kind(self.value(node.args[0]), kind)
        return self.variable(kind, found.text, found.is_natural)

    # ---- one node, one function ----

    def operator(self, node: Any) -> Any:
        name, kind = name_of(node), kind_of(node.meta["val"].dtype)
        if name == "index":
            return self.index(node)
        if name in _THE_SAME:
            return self.value(node.args[0])
        if name == "dot":
            return self.dot(*(self.values[x] for x in node.args))
        if node.meta["val"].dim():
            raise Unsupported(f"{name}: of a captured tensor that depends on the pair; index it down to one element")
        if name == "_to_copy":
            return self.converted(node)
        if name in ("full_like", "zeros_like", "ones_like", "empty_like", "fill", "new_full", "new_ones", "new_zeros"):
            last = node.args[-1] if "full" in name or name == "fill" else int("ones" in name)
            return self.as_kind(self.value(last), kind)
        operands = [self.value(x) for x in node.args if isinstance(x, (torch.fx.Node, int, float))]
        return self.of_operands(name, kind, operands, node)

    def of_operands(self, name: str, kind: str, operands: List[Any], node: Any) -> Value:
        alpha = node.kwargs.get("alpha", 1)
        if alpha != 1:
            scaled = 0 if name == "rsub" else 1
            operands[scaled] = self.variable(kind, f"{self.as_kind(operands[scaled], kind).text} * "
                                                   f"{self.constant(alpha, kind).text}")
        if name == "where":
            chosen, a, b = self.as_kind(operands[0], TRUTH), *(self.as_kind(x, kind) for x in operands[1:])
            return self.variable(kind, f"WHERE({chosen.text}, {a.text}, {b.text})", a.is_natural and b.is_natural)
        if name == "clamp":
            return self.clamp(kind, node)
        if name == "pow":
            return self.power(operands[0], operands[1], kind)
        mode = node.kwargs.get("rounding_mode") if name == "div" else None
        if name in ("floor_divide", "remainder") or mode == "floor":
            a, b = (self.as_kind(x, kind) for x in operands)
            return self.remainder(a, b) if name == "remainder" else self.floor_divide(a, b)
        if mode:
            raise Unsupported(f"div with rounding_mode {mode!r}: has no line in the text; floor_divide has")
        return self.of_line(name, kind, operands)

    def clamp(self, kind: str, node: Any) -> Value:
        found = self.as_kind(self.value(node.args[0]), kind)
        bounds = [*node.args[1:], None, None][:2]
        for name, bound in zip(("min", "max"), bounds):
            bound = node.kwargs.get(name) if bound is None else bound
            if bound is not None:
                found = self.of_line(f"clamp_{name}", kind, [found, self.value(bound)])
        is_natural = kind == INDEX and isinstance(bounds[0], int) and bounds[0] >= 0 and \
            (bounds[1] is None or (isinstance(bounds[1], int) and bounds[1] >= 0))
        return found._replace(is_natural=is_natural)

    def of_line(self, name: str, kind: str, operands: Sequence[Any]) -> Value:
        line = _LINES.get(_TRUTH_OF.get(name, name) if kind == TRUTH else name)
        if line is None:
            raise Unsupported(f"{name}: this operator of PyTorch has no line in the text that kernels have")
        of = line.of or kind
        if of == "compared":
            of = NUMBER if any(isinstance(x, Value) and x.kind == NUMBER for x in operands) else INDEX
        template = line.whole if of == INDEX else line.text
        if template is None:
            raise Unsupported(f"{name}: has no line in the text for operands of this kind ({of})")
        # every operand is a name or in brackets, since a line may have it twice and after a sign
        each = [self.as_kind(x, of) for x in operands]
        return self.variable(kind, template.format(*(f"({x.text})" for x in each)),
                             line.is_natural and all(x.is_natural for x in each))

    def function(self, name: str, graph: Any, hosted: Set[Any]) -> None:
        """Adds clattn_score or clattn_mask. `hosted`: the nodes that do not depend on the pair."""
        self.lines, self.values = [], {}
        parameters = ["b", "h", "i", "j"] if name == "clattn_mask" else ["s", "b", "h", "i", "j"]
        kind, result = (TRUTH, "TRUTH") if name == "clattn_mask" else (NUMBER, "NUMBER")
        found = self.constant(True, TRUTH)
        for node in graph.nodes:
            if node.op == "placeholder":
                parameter = parameters[len(self.values)]
                self.values[node] = Value(NUMBER if parameter == "s" else INDEX, parameter, parameter != "s")
            elif node in hosted:
                if any(user not in hosted for user in node.users):
                    self.values[node] = self.constant(node.meta["constant"], kind_of(node.meta["val"].dtype)) \
                        if "constant" in node.meta else self.given(node)
            elif node.op == "call_function":
                self.values[node] = self.operator(node)
            elif node.op == "output":
                found = self.as_kind(self.value(node.args[0]), kind)
        given = f"{'NUMBER s, ' if kind == NUMBER else ''}INDEX b, INDEX h, INDEX i, INDEX j, USER"
        self.source += f"{result} {name}({given})\n{{\n" + "\n".join([*self.lines, f"    return {found.text};\n}}\n"])
        self.functions.append(name)
