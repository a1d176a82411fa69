"""Functions of flex_attention: traced to graphs of PyTorch's operators, and told apart, so that one is traced once.

A function is the same as before where all that it reads is: its code, and the numbers, tensors' types and shapes, and
functions in its closure, its defaults and the globals that its code names. What is in a tensor is read in each call. A
function that reads something else (an object's attributes, a module's but PyTorch's and math's), or that asks Python
about a tensor's numbers, is traced again in each call.
"""
import concurrent.futures
import dis
import functools
import math
import types
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Set, Tuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ._errors import InvalidArgument, Unsupported
from ._flex_arrays import MOST
from ._flex_lines import name_of
from ._flex_others import made_of_others

_PLAIN = {bool, int, str, bytes, type(None), torch.dtype, torch.device}
_BUILTINS = {"abs", "min", "max", "bool", "int", "float", "len", "range", "round", "sum", "pow", "tuple", "list",
             "divmod", "enumerate", "zip", "reversed", "isinstance", "all", "any", "sorted"}  # of their arguments alone
_ASKING = {"__bool__", "__int__", "__float__", "__index__", "__complex__", "item", "tolist", "numpy", "__array__",
           "__contains__", "__format__", "__repr__", "equal", "is_nonzero", "allclose", "__iter__", "unbind",
           "data_ptr"}


class _Untold(Exception):
    """Something that a function reads and that cannot be told apart."""


# ---- whether it is the same ----

@functools.lru_cache(1024)
def _names(code: types.CodeType) -> FrozenSet[str]:
    """The globals that it and the functions within it name."""
    found: Set[str] = set()
    for line in dis.get_instructions(code):
        if line.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.add(line.argval)
        elif line.opname.startswith(("IMPORT", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR")):
            found.add("")  # it may leave something for its next call
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return frozenset(found)


def _told_function(function: Any, slots: List[Tensor], within: Tuple[Any, ...]) -> Any:
    if function in within:
        return "again", within.index(function)
    if function.__closure__ is None and str(function.__module__).split(".")[0] == "torch":
        return "of torch", function
    within = *within, function
    read = [function.__defaults__, function.__kwdefaults__]
    try:
        read.extend(cell.cell_contents for cell in function.__closure__ or ())
    except ValueError:  # an empty one
        raise _Untold from None
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            read.append(function.__globals__[name])
        elif name not in _BUILTINS:
            raise _Untold
    return function.__code__, tuple([_told(x, slots, within) for x in read])


def _told(value: Any, slots: List[Tensor], within: Tuple[Any, ...]) -> Any:
    """What tells it apart, to hash and compare. Adds the tensors in it to the slots."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is float:
        return kind, value.hex()  # 0.0 equals -0.0
    if kind in (Tensor, torch.nn.Parameter):
        for slot, known in enumerate(slots):
            if known is value:
                return "tensor", slot
        slots.append(value)
        return "tensor", len(slots) - 1, value.dtype, value.shape, value.stride(), value.device, value.requires_grad
    if kind is types.FunctionType:
        return _told_function(value, slots, within)
    if kind in (tuple, list):
        return kind, tuple([_told(x, slots, within) for x in value])
    if kind is dict:
        return kind, tuple([(_told(name, slots, within), _told(x, slots, within)) for name, x in value.items()])
    if kind is functools.partial:
        return kind, _told((value.func, value.args, value.keywords), slots, within)
    if kind is types.ModuleType and (value is math or value is torch or value.__name__.startswith("torch.")):
        return kind, value.__name__
    if (kind is types.BuiltinFunctionType or kind is type) and \
            str(value.__module__).split(".")[0] in ("torch", "math", "builtins"):
        return kind, value
    raise _Untold


# ---- what it computes ----

class _Watch(TorchFunctionMode):
    """Makes an index of elements of captured[b, h], which is a number of Python's elsewhere, and notes questions of
    Python's about numbers of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = False

    def __torch_function__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.__getitem__:
            several = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(x, Tensor) for x in several) and \
                    all(isinstance(x, (Tensor, int, slice)) for x in several):
                cut = tuple([x if isinstance(x, slice) else slice(None) for x in several])
                of = args[0] if all(x == slice(None) for x in cut) else args[0][cut]
                indices = [None if isinstance(x, slice) else x if isinstance(x, Tensor) else torch.tensor(x)
                           for x in several]
                while indices[-1] is None:
                    indices.pop()
                return torch.ops.aten.index.Tensor(of, indices)
        self.is_asked |= getattr(function, "__name__", "") in _ASKING
        return function(*args, **(kwargs or {}))


class Traced:
    """A function's graph. `hosted`: the nodes that do not depend on the pair; `is_kept`: whether it holds for other
    calls. Tensors of the slots are not kept."""

    def __init__(self, module: Any, slots: List[Tensor], is_kept: bool):
        self.graph, self.is_kept = module.graph, is_kept
        self.hosted: Set[Any] = set()
        self.constants: Dict[Any, Any] = {}
        self.slots: Dict[Any, int] = {}
        for node in self.graph.nodes:
            if node.op == "call_function" and not isinstance(node.meta["val"], Tensor):
                raise Unsupported(f"{name_of(node)}: this operator of PyTorch returns several results, and has no line "
                                  "in the text")
            if node.op == "get_attr":
                self._constant(node, getattr(module, node.target), slots)
            elif node.op == "call_function" and all(x in self.hosted for x in node.all_input_nodes):
                if torch.Tag.nondeterministic_seeded in node.target.tags:
                    raise Unsupported(f"{name_of(node)}: random numbers have no line in the text; draw them before "
                                      "the call")
                self.hosted.add(node)
        for node in self.graph.nodes:
            if node in self.hosted and node.meta["val"].numel() <= MOST and not self._reads_captured(node):
                node.meta["constant"] = self.host(node, [], {}).flatten().tolist()

    def _constant(self, node: Any, tensor: Tensor, slots: List[Tensor]) -> None:
        self.hosted.add(node)
        if "val" not in node.meta:
            node.meta["val"] = tensor
        for slot, known in enumerate(slots):
            if known is tensor:
                self.slots[node] = slot
                return
        # what torch.tensor() made in the function is told by its code; an attribute may be another tensor next time
        self.is_kept &= all(name_of(user) == "lift_fresh_copy" for user in node.users)
        self.constants[node] = tensor  # one that wants a gradient is no such: the graph is not kept

    def _reads_captured(self, node: Any) -> bool:
        return node in self.slots or any(map(self._reads_captured, node.all_input_nodes))

    def host(self, node: Any, slots: List[Tensor], known: Dict[Any, Tensor]) -> Tensor:
        """A node that does not depend on the pair, of the tensors in the slots. The caller's autocast is of its own
        operators, not of the text's."""
        with torch.autocast("cpu", enabled=False):
            return self._of_slots(node, slots, known)

    def _of_slots(self, node: Any, slots: List[Tensor], known: Dict[Any, Tensor]) -> Tensor:
        if node in known:
            return known[node]
        if node in self.slots:
            found = slots[self.slots[node]].detach()
        elif node in self.constants:
            found = self.constants[node].detach()
        else:
            args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)),
                                                 lambda x: self._of_slots(x, slots, known))
            found = node.target(*args, **kwargs)
        known[node] = found
        return found

    def captured(self, slots: List[Tensor]) -> Dict[Any, Tensor]:
        """The tensors that the graph reads, by its nodes."""
        return {**self.constants, **{node: slots[slot] for node, slot in self.slots.items()}}

    def result(self, pair: Tuple[Tensor, ...], captured: Dict[Any, Tensor]) -> Any:
        """What the function returns, of other tensors in the place of those captured, with their gradients."""
        known: Dict[Any, Any] = dict(captured)
        rest = iter(pair)
        for node in self.graph.nodes:
            args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), known.get)
            if node.op == "output":
                break
            if node.op == "placeholder":
                known[node] = next(rest)
            elif node.op == "call_function":
                known[node] = _within(*args) if name_of(node) == "index" else node.target(*args, **kwargs)
        return args[0]


def _within(tensor: Tensor, indices: List[Optional[Tensor]]) -> Tensor:
    """An element of a captured tensor, by the text's rule for indices out of bounds."""
    inside = [None if index is None else torch.where(index < 0, index + count, index).clamp(0, count - 1)
              for index, count in zip(indices, tensor.shape)]
    found: Tensor = torch.ops.aten.index.Tensor(tensor, inside)
    return found


def told(function: Callable[..., Any]) -> Tuple[Any, List[Tensor]]:
    """(what tells the function apart or None, the tensors that it reads)."""
    slots: List[Tensor] = []
    try:
        key = _told(function, slots, ()), torch.get_default_dtype()
        hash(key)
    except (_Untold, TypeError):
        return None, []
    return key, slots


def slope_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of a score_mod for the score, by PyTorch's own rules, which change nothing in place then."""
    return torch.func.functionalize(lambda *pair: torch.func.grad(lambda score: function(score, *pair[1:]))(pair[0]))


def _graph_of(function: Callable[..., Any], pair: List[Tensor], watch: _Watch) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx
    with torch.no_grad(), watch:
        # it may have more parameters, with defaults
        return make_fx(lambda *each: function(*each), decomposition_table=made_of_others())(*pair)


def trace(function: Callable[..., Any], name: str, slots: List[Tensor], kinds: Tuple[torch.dtype, ...],
          is_told: bool) -> Traced:
    """The graph of a function of 0-d tensors of these types; `name`: what the caller calls it."""
    pair = [torch.zeros((), dtype=kind) for kind in kinds]
    watch = _Watch()
    try:
        # hooks of saved tensors, which checkpoints set, autocast and a mode of the caller's are of the caller's thread
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            module = thread.submit(_graph_of, function, pair, watch).result()
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, Unsupported) or "BlockMask" in str(error):
            raise
        raise Unsupported(f"{name}: PyTorch could not trace it, without a branch on a pair's numbers, to operators "
                          f"({str(error).strip().splitlines()[0]}); choose by torch.where") from error
    (result,) = [node.args[0] for node in module.graph.nodes if node.op == "output"]
    if not isinstance(result, torch.fx.Node) or result.meta["val"].dim():
        raise InvalidArgument(f"{name}: returns {type(result).__name__} of more or less than one element; must return "
                              "a tensor without axes")
    return Traced(module, slots, is_told and not watch.is_asked)
