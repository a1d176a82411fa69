"""Gradients: one call of clattn_backward_host, and what it shares with the forward call."""
import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _library as lib
from ._arrays import View
from ._context import Context
from ._errors import InvalidArgument, InvalidShape, check
from ._fields import _FEATURES, _ROWS, LEARNED, WITH_GRADIENTS
from ._prepared import Field, place
from ._problem import Options, problem_of
from ._sequences import Sequences

_WANTED = {f"d{name}": getattr(lib, f"CLATTN_GRADIENT_{name.upper()}")
           for name in ("query", "key", "value", *WITH_GRADIENTS)}
_AXES = {"dscale": (), **{f"d{name}": of.axes for name, of in LEARNED.items() if of.is_of_heads}}


class BothWays(NamedTuple):
    """What both directions give to the library."""

    of: Sequences
    shape: Tuple[int, int, int, int]  # of the logits
    fields: List[Field]
    call: Any
    options: Options


def check_results(query: View, value: View, out: View, lse: View, grad_out: View, grad_lse: Optional[View]) -> None:
    """What the library could not see: it reads these as the forward call wrote them."""
    rows, kind = query.shape[:3], query.type
    for name, found, shape, kind in (("out", out, rows + value.shape[3:], kind), ("lse", lse, rows, "float32"),
                                     ("dout", grad_out, rows + value.shape[3:], kind)):
        if found.shape != shape or found.type != kind:
            raise InvalidShape(f"{name}: is {found.type} of shape {found.shape}; must be {kind} of shape {shape}")
    if grad_lse is not None and (grad_lse.shape != lse.shape or grad_lse.type != "float32"):
        raise InvalidShape(f"dlse: is {grad_lse.type} of shape {grad_lse.shape}; must be float32 of shape {lse.shape}")


def run_backward(context: Context, query: View, key: View, value: View, fields: Sequence[Field], call: Any,
                 options: Options, out: View, lse: View, grad_out: View, gradients: Dict[str, View],
                 grad_lse: Optional[View] = None) -> None:
    """`gradients`: views by name, of those that are wanted. `fields`, `call`, `options` are the forward call's; out and
    lse, views, what it wrote; grad_out and grad_lse views of a loss's derivatives there, at lse 0 where None."""
    check_results(query, value, out, lse, grad_out, grad_lse)
    of_heads = "float64" if query.type == "float64" else "float32"
    for name in _AXES:
        if name in gradients and gradients[name].type != of_heads:
            raise InvalidArgument(f"{name}: is {gradients[name].type}; must be {of_heads}, as query is {query.type}")
    kinds = {name: found.type for name, found, _ in fields}
    features = sum(_FEATURES.get(name, 0) for name in kinds) | lib.CLATTN_WITH_LSE
    forward = problem_of(query, key, value, features, kinds, options)
    every = (query, key, value, out, grad_out, *(gradients[name] for name in ("dquery", "dkey", "dvalue")
                                                  if name in gradients))
    forward.strided_columns = any(found.strides[3] != 1 and found.shape[3] > 1 for found in every)
    problem = lib.new("clattn_backward_problem", forward=ctypes.addressof(forward),
                      gradients=sum(_WANTED[name] for name in gradients),
                      features=0 if grad_lse is None else lib.CLATTN_WITH_DLSE)
    if any(gradients[name].type == "float32" != query.type for name in ("dquery", "dkey", "dvalue")
           if name in gradients):
        problem.gradient_type = lib.CLATTN_FLOAT32  # else each as what it is the gradient of
    tensors = lib.new("clattn_host_tensors")
    places = lib.new("clattn_host_gradients")
    for name, found, axes in [("query", query, _ROWS), ("key", key, _ROWS), ("value", value, _ROWS), *fields,
                              ("out", out, _ROWS), ("lse", lse, _ROWS[:3])]:
        place(tensors, name, found, axes)
    place(places, "dout", grad_out)
    if grad_lse is not None:
        place(places, "dlse", grad_lse, _ROWS[:3])
    for name, found in gradients.items():
        place(places, name, found, _AXES.get(name, _ROWS))
    check(context.backward_host(context.target, ctypes.byref(problem), ctypes.byref(call), ctypes.byref(tensors),
                                ctypes.byref(places)))
