"""What both ways into PyTorch share: counts, views of tensors, calls that were made before."""
import ctypes
import threading
from collections import Counter
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch
from torch import Tensor

from ._arrays import View, torch_view
from ._attention import _OUT_TYPES, _ROWS, Field, Prepared, check_shapes
from ._context import default_context
from ._errors import InvalidArgument, InvalidShape
from ._problem import KEPT

_counting = threading.Lock()
served: "Counter[str]" = Counter()
declined: "Counter[str]" = Counter()


def count(counter: "Counter[str]", name: str) -> None:
    with _counting:
        counter[name] += 1


def report(clear: bool = False) -> Dict[str, Dict[str, int]]:
    """{"served": {direction: calls}, "declined": {reason: calls}} since the start, or since it was cleared. Calls that
    PyTorch never hands to its flash kernel on the CPU (values of another head dim, dropout, no gradient of a mask) are
    not counted: clattn.torch.attention serves most of these."""
    with _counting:
        found = {"served": dict(served), "declined": dict(declined)}
        if clear:
            served.clear()
            declined.clear()
    return found


def views(query: Tensor, key: Tensor, value: Tensor, floating: Sequence[str] = ("query",)) -> List[View]:
    """Of three tensors that fit each other; those in `floating` must be of a floating-point type."""
    every = []
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        found = torch_view(tensor)
        if len(found.shape) != 4:
            raise InvalidShape(f"{name}: has shape {found.shape}; must be [batch, heads, rows, columns]")
        if name in floating and found.type not in _OUT_TYPES:
            raise InvalidArgument(f"{name}: type {found.type}; must be one of {', '.join(_OUT_TYPES)}")
        every.append(found)
    check_shapes(*every)
    return every


def outputs(out: Tensor, lse: Tensor) -> List[Field]:
    return [("out", torch_view(out), _ROWS), ("lse", torch_view(lse), _ROWS[:3])]


class Again:
    """A call that was made: what another one needs whose tensors have the same types, shapes and strides."""

    def __init__(self, prepared: Prepared, call: Any, out: Tensor, lse: Tensor) -> None:
        self.prepared, self.call = prepared, ctypes.byref(call)
        self.out, self.lse = ((x.shape, x.stride(), x.dtype) for x in (out, lse))

    def compute(self, tensors: Sequence[Tensor]) -> Tuple[Tensor, Tensor]:
        shape, stride, dtype = self.out
        out = torch.empty_strided(shape, stride, dtype=dtype, device=_CPU)
        shape, stride, dtype = self.lse
        lse = torch.empty_strided(shape, stride, dtype=dtype, device=_CPU)
        self.prepared.compute(default_context(), self.call, [x.data_ptr() for x in (*tensors, out, lse)])
        return out, lse


_CPU = torch.device("cpu")
made_before: Dict[Any, Again] = {}


def computed(tensors: Sequence[Tensor], said: Tuple[Any, ...],
             first: Callable[[], Tuple[Tensor, Tensor, Prepared, Any]]) -> Tuple[Tensor, Tensor]:
    """(out, lse) of tensors on the CPU, in the order of the library's fields, and of what is said in numbers and words;
    first() computes what was never computed before: (out, lse, what it had prepared, its clattn_call)."""
    identity = said, *[(x.dtype, x.shape, x.stride()) for x in tensors]
    again = made_before.get(identity)
    if again is not None:
        return again.compute(tensors)
    out, lse, prepared, call = first()
    if len(made_before) >= KEPT:  # a decoder's cache grows by a row each step
        made_before.clear()
    made_before[identity] = Again(prepared, call, out, lse)
    return out, lse
