"""A graph of PyTorch's operators on one pair of a row and a key as a text in OpenCL C (include/clattn_code.h).

Each operator is a line of LINES (_flex_lines.py). A value is a number (NUMBER), a whole number (INDEX) or a truth
(INDEX, not 0 where it is true: -1 on lanes, else 1), each in a variable of its own; nothing branches, so that the text
can be compiled for sixteen pairs at once. What does not depend on the pair is left to the caller, who computes it for
each call.
"""
import itertools
import math
from typing import Any, Dict, List, Sequence, Set, Tuple

import torch

from ._code import MOST
from ._errors import Unsupported
from ._flex_arrays import OF_ARRAYS, check_count, of_arrays
from ._flex_lines import FILLED, INDEX, LINES, NUMBER, REMAINDER, TRUTH, TRUTH_OF, Array, Part, Value, kind_of, \
    name_of

_DECLARED = {NUMBER: "NUMBER", INDEX: "INDEX", TRUTH: "INDEX"}


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

    def hosted(self, node: Any) -> Any:
        """A node that does not depend on the pair: of numbers that the text has, or given."""
        if "constant" not in node.meta or any(name_of(user) == "index" and user.args[0] is node for user in node.users):
            return self.given(node)
        numbers, of = node.meta["constant"], node.meta["val"]
        elements = [self.constant(number, kind_of(of.dtype)) for number in numbers]
        return Array(elements, tuple(of.shape)) if of.dim() else elements[0]

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
        if isinstance(value, (Part, Array)):
            raise Unsupported(f"a tensor of shape {list(value.shape)}: must be indexed down to one element")
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
        if len(indices) > len(part.shape):
            raise Unsupported("index: has more numbers than the captured tensor has axes")
        for of in indices:
            if isinstance(of, torch.fx.Node) and kind_of(of.meta["val"].dtype) != INDEX:
                raise Unsupported("index: by something else than a whole number")
        if any(of is None for of in indices):
            return self.index_between(node, part, indices)
        for of in indices:
            part = self.place(part, self.as_kind(self.value(of), INDEX))
        return part if part.shape else self.load(part)

    def index_between(self, node: Any, part: Part, indices: Sequence[Any]) -> Array:
        """Where axes before one that is indexed are left whole, the elements that are found."""
        shape = tuple(node.meta["val"].shape)
        ways = [range(count) if at >= len(indices) or indices[at] is None else (indices[at],)
                for at, count in enumerate(part.shape)]
        check_count(name_of(node), torch.Size(shape).numel())
        found = []
        for way in itertools.product(*ways):
            at = part
            for of in way:
                at = self.place(at, self.as_kind(self.value(of), INDEX))
            found.append(self.load(at))
        return Array(found, shape)

    def place(self, part: Part, index: Value) -> Part:
        """The part with its first axis indexed."""
        count = part.shape[0]
        before = f"({part.place}) * {self.length(count)} + " if part.place else ""
        place = self.variable(INDEX, before + self.within(index, count), True).text
        return part._replace(place=place, shape=part.shape[1:])

    # ---- operators that are more than a line ----

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

    def divide_and_cut(self, a: Value, b: Value) -> Value:
        """Rounded towards 0, as C does."""
        if a.kind == NUMBER:
            return self.variable(NUMBER, f"trunc({a.text} / {b.text})")
        if b.constant == 0:
            raise ZeroDivisionError("div: by 0")
        return self.variable(INDEX, f"{a.text} / {self.divisor(b)}", a.is_natural and b.is_natural)

    def divisor(self, b: Value) -> str:
        """Never 0, by which a processor would stop the program; the result there is any number."""
        if b.constant is not None:
            return b.text
        return self.variable(INDEX, f"WHERE({b.text} == 0, (INDEX)(1), {b.text})").text

    def remainder(self, a: Value, b: Value) -> Value:
        if a.kind == NUMBER:
            rest = self.variable(NUMBER, REMAINDER.format(a.text, b.text)).text
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
        name = name_of(node)
        if name == "index" and not any(x is not None and x.meta["val"].dim() for x in node.args[1]):
            return self.index(node)
        if name in OF_ARRAYS or node.meta["val"].dim() or \
                any(isinstance(self.values[x], (Part, Array)) for x in node.all_input_nodes):
            return of_arrays(self, node)
        return self.of_pair(node)

    def of_pair(self, node: Any) -> Value:
        """An operator on values without axes."""
        name, kind = name_of(node), kind_of(node.meta["val"].dtype)
        if name == "_to_copy":
            return self.converted(node)
        if name in FILLED:
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
            return self.divide_and_cut(*(self.as_kind(x, kind) for x in operands))
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
        line = LINES.get(TRUTH_OF.get(name, name) if kind == TRUTH else name)
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
                    self.values[node] = self.hosted(node)
            elif node.op == "call_function":
                self.values[node] = self.operator(node)
            elif node.op == "output":
                found = self.as_kind(self.value(node.args[0]), kind)
        given = f"{'NUMBER s, ' if kind == NUMBER else ''}INDEX b, INDEX h, INDEX i, INDEX j, USER"
        self.source += f"{result} {name}({given})\n{{\n" + "\n".join([*self.lines, f"    return {found.text};\n}}\n"])
        self.functions.append(name)
