"""clattn in JAX, on the CPU.

    clattn.jax.attention()    an operator of XLA: inside jit, with gradients, without a copy
"""
import ctypes
import json
from functools import partial

import jax
import jax.numpy as jnp

from . import _xla
from ._attention import _ROWS, broadcast, call_of, check_shapes, optional_fields, run
from ._context import default_context
from ._errors import InvalidShape
from ._gradients import run_backward
from ._problem import options_of, window_of

__all__ = ["attention"]

_OPTIONAL = ("mask", "bias", "slopes", "sinks", "key_lengths")  # in the order in which XLA gets those that are there
_WITH_GRADIENTS = ("bias", "slopes", "sinks")


def _arguments(said, views):
    """What both directions give to the library, and the views that are left."""
    query, key, value, *rest = views
    check_shapes(query, key, value)
    given = dict(zip(said["optional"], rest))
    rest = rest[len(given):]
    batch, heads, rows, _ = query.shape
    if "key_lengths" in given:
        given["key_lengths"] = (ctypes.c_int32 * batch).from_address(given["key_lengths"].address)
    fields = optional_fields((batch, heads, rows, key.shape[2]), batch, heads, *map(given.get, _OPTIONAL), None)
    causal, alignment, window, softcap, rounded, tf32 = said["options"]
    options = options_of(causal, alignment, window=tuple(window), softcap=softcap, allow_rounded_weights=rounded,
                         allow_tf32=tf32)
    return (query, key, value, fields, call_of(query, key, said["scale"]), options), rest


def _forward(said, views, results):
    arguments, _ = _arguments(said, views)
    out, lse = results
    run(default_context(), *arguments, [("out", out, _ROWS), ("lse", lse, _ROWS[:3])])


def _backward(said, views, results):
    arguments, (out, lse, dout) = _arguments(said, views)
    query, key = arguments[:2]
    full = {"bias": query.shape[:3] + key.shape[2:3], "slopes": query.shape[:2], "sinks": query.shape[1:2]}
    gradients = dict(zip(("dquery", "dkey", "dvalue"), results))
    for name, found in zip(said["gradients"], results[3:]):
        gradients[f"d{name}"] = broadcast(found, full[name], f"d{name}")
    run_backward(default_context(), *arguments, out, lse, dout, gradients)


_handlers = {"clattn_forward": _xla.handler(_forward), "clattn_backward": _xla.handler(_backward)}
for _name, _handler in _handlers.items():
    jax.ffi.register_ffi_target(_name, jax.ffi.pycapsule(_handler), platform="cpu")


def _call(name, results, arrays, optional, said, **more):
    """An operator of XLA."""
    optional = {name: array for name, array in zip(_OPTIONAL, optional) if array is not None}
    text = json.dumps({**dict(said), "optional": list(optional), **more})
    return jax.ffi.ffi_call(name, results, vmap_method="sequential")(*arrays[:3], *optional.values(), *arrays[3:], call=text)


def _results(query, value):
    return (jax.ShapeDtypeStruct(query.shape[:3] + value.shape[3:], query.dtype),
            jax.ShapeDtypeStruct(query.shape[:3], jnp.float32))


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attention(query, key, value, optional, said):
    return _call("clattn_forward", _results(query, value), (query, key, value), optional, said)


def _attention_forward(query, key, value, optional, said):
    out, lse = _attention(query, key, value, optional, said)
    return (out, lse), (query, key, value, optional, out, lse)


def _attention_backward(said, kept, cotangents):
    query, key, value, optional, out, lse = kept
    given = dict(zip(_OPTIONAL, optional))
    wanted = [name for name in _WITH_GRADIENTS if given[name] is not None]
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (query, key, value, *map(given.get, wanted))]
    found = _call("clattn_backward", results, (query, key, value, out, lse, cotangents[0]), optional, said,
                  gradients=wanted)
    gradients = dict(zip(wanted, found[3:]))
    return (*found[:3], tuple(gradients.get(name) for name in _OPTIONAL))


_attention.defvjp(_attention_forward, _attention_backward)


def attention(query, key, value, *, mask=None, bias=None, causal=None, alignment=None, window=None, scale=None,
              softcap=None, slopes=None, sinks=None, key_lengths=None, return_lse=False, allow_rounded_weights=False,
              allow_tf32=False):
    """clattn.attention as an operator of XLA on the CPU: in jit, in vmap (one after the other), with gradients.

    Shapes and meanings are those of clattn.attention, with all four axes: [batch, heads, rows, columns], where JAX's own
    has rows before heads. Arrays may be traced; causal, alignment, window, scale and softcap are of Python. Gradients:
    query, key, value, bias, slopes, sinks. lse has none.
    """
    for name, array in (("query", query), ("key", key), ("value", value)):
        if array.ndim != 4:
            raise InvalidShape(f"{name}: has shape {array.shape}; must be [batch, heads, rows, columns]")
    as_float32 = [None if x is None else jnp.asarray(x, jnp.float32) for x in (slopes, sinks)]
    lengths = None if key_lengths is None else jnp.asarray(key_lengths, jnp.int32)
    if lengths is not None and lengths.shape != query.shape[:1]:
        raise InvalidShape(f"key_lengths: has shape {lengths.shape}; must be [batch], here {query.shape[:1]}")
    softcap, scale = (None if x is None else float(x) for x in (softcap, scale))
    said = (("options", (causal, alignment, window_of(window), softcap, bool(allow_rounded_weights), bool(allow_tf32))),
            ("scale", scale))
    out, lse = _attention(query, key, value, (mask, bias, *as_float32, lengths), said)
    return (out, jax.lax.stop_gradient(lse)) if return_lse else out
