"""clattn in JAX, on the CPU.

    clattn.jax.attention()    an operator of XLA: inside jit, with gradients, without a copy
"""
import ctypes
import json
from functools import partial
from typing import Any, Dict, List, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _xla
from ._arrays import View
from ._attention import call_of, run
from ._context import default_context
from ._errors import InvalidArgument, InvalidShape
from ._fields import _ROWS, broadcast, check_shapes, optional_fields
from ._gradients import run_backward
from ._problem import number, options_of, refuse_words, window_of

__all__ = ["attention"]

_OPTIONAL = ("mask", "bias", "slopes", "sinks", "key_lengths")  # in the order in which XLA gets those that are there
_WITH_GRADIENTS = ("bias", "slopes", "sinks")


def _arguments(said: Any, views: List[View]) -> Tuple[Tuple[Any, ...], List[View]]:
    """What both directions give to the library, and the views that are left."""
    query, key, value, *rest = views
    check_shapes(query, key, value)
    given: Dict[str, Any] = dict(zip(said["optional"], rest))
    rest = rest[len(given):]
    batch, heads, rows, _ = query.shape
    if "key_lengths" in given:
        given["key_lengths"] = (ctypes.c_int32 * batch).from_address(given["key_lengths"].address)
    mask, bias, slopes, sinks, lengths = map(given.get, _OPTIONAL)
    fields = optional_fields((batch, heads, rows, key.shape[2]), batch, heads, mask, bias, slopes, sinks, lengths, None)
    causal, alignment, window, softcap, rounded, tf32 = said["options"]
    options = options_of(causal, alignment, window=tuple(window), softcap=softcap, allow_rounded_weights=rounded,
                         allow_tf32=tf32)
    return (query, key, value, fields, call_of(query, key, said["scale"]), options), rest


def _forward(said: Any, views: List[View], results: List[View]) -> None:
    arguments, _ = _arguments(said, views)
    out, lse = results
    query, key, value, fields, call, options = arguments
    run(default_context(), query, key, value, fields, call, options, [("out", out, _ROWS), ("lse", lse, _ROWS[:3])])


def _backward(said: Any, views: List[View], results: List[View]) -> None:
    arguments, (out, lse, dout) = _arguments(said, views)
    query, key, value, fields, call, options = arguments
    full = {"bias": query.shape[:3] + key.shape[2:3], "slopes": query.shape[:2], "sinks": query.shape[1:2]}
    gradients = dict(zip(("dquery", "dkey", "dvalue"), results))
    for name, found in zip(said["gradients"], results[3:]):
        gradients[f"d{name}"] = broadcast(found, full[name], f"d{name}")
    run_backward(default_context(), query, key, value, fields, call, options, out, lse, dout, gradients)


_handlers = {"clattn_forward": _xla.handler(_forward), "clattn_backward": _xla.handler(_backward)}
for _name, _handler in _handlers.items():
    jax.ffi.register_ffi_target(_name, jax.ffi.pycapsule(_handler), platform="cpu")


def _call(name: str, results: Any, arrays: Sequence[Any], optional: Sequence[Any], said: Any, **more: Any) -> Any:
    """An operator of XLA."""
    given = {name: array for name, array in zip(_OPTIONAL, optional) if array is not None}
    text = json.dumps({**dict(said), "optional": list(given), **more})
    operator: Any = jax.ffi.ffi_call(name, results, vmap_method="sequential")
    return operator(*arrays[:3], *given.values(), *arrays[3:], call=text)


def _results(query: Any, value: Any) -> Tuple[Any, Any]:
    return (jax.ShapeDtypeStruct(query.shape[:3] + value.shape[3:], query.dtype),
            jax.ShapeDtypeStruct(query.shape[:3], jnp.float32))


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attention(query: Any, key: Any, value: Any, optional: Any, said: Any) -> Any:
    return _call("clattn_forward", _results(query, value), (query, key, value), optional, said)


def _attention_forward(query: Any, key: Any, value: Any, optional: Any, said: Any) -> Any:
    out, lse = _attention(query, key, value, optional, said)
    return (out, lse), (query, key, value, optional, out, lse)


def _attention_backward(said: Any, kept: Any, cotangents: Any) -> Any:
    query, key, value, optional, out, lse = kept
    given = dict(zip(_OPTIONAL, optional))
    wanted = [name for name in _WITH_GRADIENTS if given[name] is not None]
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (query, key, value, *map(given.get, wanted))]
    found = _call("clattn_backward", results, (query, key, value, out, lse, cotangents[0]), optional, said,
                  gradients=wanted)
    gradients = dict(zip(wanted, found[3:]))
    return (*found[:3], tuple(gradients.get(name) for name in _OPTIONAL))


_attention.defvjp(_attention_forward, _attention_backward)


def _of_kind(array: Any, name: str, *kinds: Any) -> Any:
    """The array, whose type must be of these kinds: JAX would convert any other in silence."""
    array = array if hasattr(array, "dtype") else np.asarray(array)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in kinds):
        raise InvalidArgument(f"{name}: type {array.dtype}; must be {' or '.join(kind.__name__ for kind in kinds)}")
    return array


def _lengths(array: Any) -> Any:
    """In int32. What does not fit becomes a length that no call may have."""
    array = _of_kind(array, "key_lengths", jnp.integer)
    if not isinstance(array, jax.Array):  # JAX may cut its numbers off at 32 bits
        array = np.asarray(array).astype(object).clip(-1, 2**31 - 1).astype(np.int32)
    elif array.dtype.itemsize > 4 or array.dtype == jnp.uint32:
        least = 0 if jnp.issubdtype(array.dtype, jnp.unsignedinteger) else -1
        array = jnp.clip(array, least, 2**31 - 1)
    return jnp.asarray(array, jnp.int32)


def attention(query: Any, key: Any, value: Any, *, mask: Any = None, bias: Any = None, causal: Optional[str] = None,
              alignment: Optional[str] = None, window: Any = None, scale: Optional[float] = None,
              softcap: Optional[float] = None, slopes: Any = None, sinks: Any = None, key_lengths: Any = None,
              return_lse: bool = False, allow_rounded_weights: bool = False, allow_tf32: bool = False,
              **others: Any) -> Any:
    """clattn.attention as an operator of XLA on the CPU: in jit, in vmap (one after the other), with gradients.

    Shapes and meanings are those of clattn.attention: [batch, heads, rows, columns], without batch or without both, where
    JAX's own has rows before heads. Arrays may be traced; causal, alignment, window, scale and softcap are of Python. Gradients:
    query, key, value, bias, slopes, sinks. lse has none.
    """
    if others:
        refuse_words("attention", others)
    axes = query.ndim
    for name, array in (("query", query), ("key", key), ("value", value)):
        if array.ndim != axes or not 2 <= axes <= 4:
            raise InvalidShape(f"{name}: has shape {array.shape}; must be [batch, heads, rows, columns], all three without "
                               "batch, or without both")
    query, key, value = (x.reshape((1,) * (4 - axes) + x.shape) for x in (query, key, value))
    as_float32 = [None if x is None else jnp.asarray(_of_kind(x, name, jnp.floating, jnp.integer), jnp.float32)
                  for x, name in ((slopes, "slopes"), (sinks, "sinks"))]
    lengths = None if key_lengths is None else _lengths(key_lengths)
    if lengths is not None and lengths.shape != query.shape[:1]:
        raise InvalidShape(f"key_lengths: has shape {lengths.shape}; must be [batch], here {query.shape[:1]}")
    softcap, scale = (None if x is None else number(x, name) for x, name in ((softcap, "softcap"), (scale, "scale")))
    said = (("options", (causal, alignment, window_of(window), softcap, bool(allow_rounded_weights), bool(allow_tf32))),
            ("scale", scale))
    out, lse = _attention(query, key, value, (mask, bias, *as_float32, lengths), said)
    out, lse = out.reshape(out.shape[4 - axes:]), lse.reshape(lse.shape[4 - axes:])
    return (out, jax.lax.stop_gradient(lse)) if return_lse else out
