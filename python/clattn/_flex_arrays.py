"""Operators on small tensors that depend on the pair, in a text: rows of captured tensors, what stack() and cat() put
together, what is compared with a list. Each element is a value of its own, so there are few."""
from typing import Any, Dict, List

import torch

from ._errors import Unsupported
from ._flex_lines import FILLED, NUMBER, Array, Part, Value, kind_of, name_of

MOST = 192  # elements: each is some lines of the text, which has 65536 bytes, and of its slope's

_MOVES = {"view", "reshape", "_unsafe_view", "expand", "squeeze", "unsqueeze", "permute", "transpose", "t", "select",
          "slice", "cat", "stack", "flip", "roll", "repeat", "diagonal", "select_scatter", "slice_scatter", "clone",
          "detach", "alias", "contiguous", "lift_fresh_copy"}
_FOLDS = {"sum": ("add", 0), "mean": ("add", 0), "prod": ("mul", 1), "any": ("logical_or", False),
          "all": ("logical_and", True), "amax": ("maximum", None), "amin": ("minimum", None),
          "max": ("maximum", None), "min": ("minimum", None)}  # by which line, and what is found of no elements
OF_ARRAYS = _MOVES | set(_FOLDS) | {"dot"}
EACH = {"_to_copy", "where", "index"}  # beside those that PyTorch says are pointwise


def check_count(name: str, count: int) -> None:
    if count > MOST:
        raise Unsupported(f"{name}: of {count} elements for each pair; must be at most {MOST}")


def _array(writer: Any, value: Any, name: str) -> Array:
    if isinstance(value, Value):
        return Array([value], ())
    count = torch.Size(value.shape).numel()
    check_count(name, count)
    if isinstance(value, Array):
        return value
    return Array([writer.load(value._replace(place=f"({value.place or 0}) * {count} + {n}", shape=()))
                  for n in range(count)], value.shape)


def _moved(node: Any, of: Dict[Any, Array]) -> Array:
    """What the operator itself does to the elements' numbers."""
    elements: List[Value] = []
    places = {}
    for x, array in of.items():
        places[x] = torch.arange(len(elements), len(elements) + len(array.elements)).view(array.shape)
        elements += array.elements
    args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), places.get)
    found = node.target(*args, **kwargs)
    return Array([elements[n] for n in found.flatten().tolist()], tuple(found.shape))


def _fold(writer: Any, line: str, kind: str, values: List[Value], of_none: Any) -> Value:
    total = values[0] if values else writer.constant(of_none, kind)
    for value in values[1:]:
        total = writer.of_line(line, kind, [total, value])
    return total


def _folded(writer: Any, node: Any, array: Array) -> Array:
    name, kind = name_of(node), kind_of(node.meta["val"].dtype)
    line, of_none = _FOLDS[name]
    axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    axes = [axes] if isinstance(axes, int) else list(axes or range(len(array.shape)))
    axes = [axis % max(len(array.shape), 1) for axis in axes] if array.shape else []
    kept = [axis for axis in range(len(array.shape)) if axis not in axes]
    count = torch.Size([array.shape[axis] for axis in axes]).numel()
    places = torch.arange(len(array.elements)).view(array.shape).permute(*kept, *axes)
    found = []
    for row in places.reshape(-1, count).tolist() if count else [[]] * torch.Size(node.meta["val"].shape).numel():
        total = _fold(writer, line, kind, [writer.as_kind(array.elements[n], kind) for n in row], of_none)
        found.append(writer.of_line("div", kind, [total, writer.constant(count, NUMBER)]) if name == "mean" else total)
    return Array(found, tuple(node.meta["val"].shape))


def _each(writer: Any, node: Any, of: Dict[Any, Array]) -> Array:
    """The operator of each element by itself."""
    shape = node.meta["val"].shape
    check_count(name_of(node), shape.numel())
    places = {x: torch.arange(len(array.elements)).view(array.shape).expand(shape).flatten().tolist()
              for x, array in of.items()}
    before, found = {x: writer.values[x] for x in of}, []
    for n in range(shape.numel()):
        writer.values.update({x: array.elements[places[x][n]] for x, array in of.items()})
        found.append(writer.index(node) if name_of(node) == "index" else writer.of_pair(node))
    writer.values.update(before)
    return Array(found, tuple(shape))


def of_arrays(writer: Any, node: Any) -> Any:
    name = name_of(node)
    if name in FILLED:
        shape = node.meta["val"].shape
        return Array([writer.of_pair(node)] * shape.numel(), tuple(shape))
    inputs = [x for x in node.all_input_nodes if not (name == "index" and x is node.args[0])]
    if not (name in OF_ARRAYS or name in EACH or torch.Tag.pointwise in node.target.tags):
        raise Unsupported(f"{name}: this operator of PyTorch has no line in the text for tensors that depend on the "
                          "pair; index them down to one element")
    of = {x: _array(writer, writer.values[x], name) for x in inputs}
    if name in _MOVES:
        kind = kind_of(node.meta["val"].dtype)
        found = _moved(node, {x: Array([writer.as_kind(value, kind) for value in array.elements], array.shape)
                              for x, array in of.items()})
    elif name == "dot":
        kind = kind_of(node.meta["val"].dtype)
        pairs = zip(*(of[x].elements for x in node.args))
        found = Array([_fold(writer, "add", kind, [writer.of_line("mul", kind, pair) for pair in pairs], 0)], ())
    elif name in _FOLDS:
        found = _folded(writer, node, of[node.args[0]])
    else:
        found = _each(writer, node, of)
    return found if node.meta["val"].dim() else found.elements[0]
