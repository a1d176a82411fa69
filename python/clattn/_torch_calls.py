"""What both ways into PyTorch share: counts, views of tensors, calls that were made before."""
import functools
import os
import threading
import warnings
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._arrays import View, torch_address, torch_view
from ._context import default_context
from ._errors import InvalidArgument, InvalidShape, Unsupported
from ._fields import _OUT_TYPES, _ROWS, check_shapes
from ._prepared import Again, Field, MadeBefore, Prepared

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


_is_told = False


def tell_of_spinning_threads() -> None:
    """Warns once where OpenMP's threads, of which PyTorch has several, would not sleep while OpenCL's compute."""
    global _is_told
    if _is_told or torch.get_num_threads() < 2 or not torch.backends.openmp.is_available():
        return
    _is_told = True
    if os.environ.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE" and os.environ.get("GOMP_SPINCOUNT") != "0":
        warnings.warn("clattn: idle threads of PyTorch's OpenMP spin on the cores that OpenCL computes on; set the "
                      "environment variable OMP_WAIT_POLICY=PASSIVE before Python starts", RuntimeWarning, stacklevel=3)


def check_axes(name: str, shape: Sequence[int], kind: str, is_floating: bool) -> None:
    """Raises where one of the three tensors has other axes, or must be of a floating-point type and is not."""
    if len(shape) != 4:
        raise InvalidShape(f"{name}: has shape {tuple(shape)}; must be [batch, heads, rows, columns]")
    if is_floating and kind not in _OUT_TYPES:
        raise InvalidArgument(f"{name}: type {kind}; must be one of {', '.join(_OUT_TYPES)}")


def four_axes(query: Tensor, key: Tensor, value: Tensor, floating: Sequence[str] = ("query",)) -> List[View]:
    """Views of three tensors; those in `floating` must be of a floating-point type."""
    every = []
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        found = torch_view(tensor)
        check_axes(name, found.shape, found.type, name in floating)
        every.append(found)
    return every


def views(query: Tensor, key: Tensor, value: Tensor) -> List[View]:
    """Views of three tensors that fit each other."""
    every = four_axes(query, key, value)
    check_shapes(*every)
    return every


def outputs(results: Sequence[Tensor]) -> List[Field]:
    """Fields of out and, where there is a second, lse."""
    return [(name, torch_view(x), axes) for x, name, axes in zip(results, ("out", "lse"), (_ROWS, _ROWS[:3]))]


class _Last(torch.autograd.Function):
    """Gradients of which there are none."""

    @staticmethod
    def forward(ctx: Any, function: str, found: int, *tensors: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        ctx.function = function
        return tensors[:found]

    @staticmethod
    def backward(ctx: Any, *grads: Optional[Tensor]) -> Any:
        raise Unsupported(f"{ctx.function}: has no second derivatives")


def last_derivatives(function: str, found: Sequence[Optional[Tensor]],
                     *of: Optional[Tensor]) -> List[Optional[Tensor]]:
    """Gradients that a function computed without a graph, `of` what they depend on. Where PyTorch is asked for a graph
    of them, theirs is an error in the backward pass; without one they would be constants there, in silence."""
    return list(_Last.apply(function, len(found), *found, *of)) if torch.is_grad_enabled() else list(found)


_CPU = torch.device("cpu")
made_before = MadeBefore()


def computed(tensors: Sequence[Tensor], said: Tuple[Any, ...],
             first: Callable[[], Tuple[List[Tensor], Prepared, Any]]) -> List[Tensor]:
    """Results of tensors on the CPU, in the order of the library's fields, and of what is said in numbers and words;
    first() computes what was never computed before: (results, what it had prepared, its clattn_call)."""
    identity = said, *[(x.dtype, x.shape, x.stride()) for x in tensors]
    again = made_before.find(identity)
    if again is not None:
        return again.compute(default_context(), tensors)
    tell_of_spinning_threads()
    results, prepared, call = first()
    new = [functools.partial(torch.empty_strided, x.shape, x.stride(), dtype=x.dtype, device=_CPU) for x in results]
    made_before.keep(identity, Again(prepared, call, torch_address, new))
    return results
