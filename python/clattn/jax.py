"""clattn in JAX, on the CPU.

    clattn.jax.attention()                an operator of XLA: inside jit, with gradients, without a copy
    clattn.jax.dot_product_attention()    that, by the signature of jax.nn.dot_product_attention
"""
import ctypes
import json
import math
from functools import partial
from typing import Any, Dict, List, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _xla
from ._arrays import Scales, View
from ._attention import call_of, run
from ._code import MOST, code_fields, code_options, text_of
from ._context import default_context
from ._errors import InvalidArgument, InvalidShape
from ._fields import _ROWS, LEARNED, WITH_GRADIENTS, broadcast, learned_shapes, optional_fields
from ._gradients import BothWays, run_backward
from ._problem import number, options_of, refuse_words, whole, window_of
from ._sequences import NAMES, Sequences, columns_of, sequences_of

__all__ = ["attention", "dot_product_attention"]

_NUMBERS = ("key_lengths", "offsets", "cu_query", "cu_key", "page_starts")  # which are read before a call
_TABLES = ("page_table", "row_low", "row_high")
_SCALES = ("key_scales", "value_scales", "key_zero_points", "value_zero_points")
_LOADED = tuple(f"loaded_{i}" for i in range(MOST))  # what a text loads
_OF_CALL = ("scale", "seed")  # one number each, which may be traced
_OPTIONAL = ("mask", *LEARNED, *_OF_CALL, *_NUMBERS, *_TABLES, *_SCALES, *_LOADED)  # in XLA's order


def _numbers(found: View) -> Any:
    return (ctypes.c_int32 * found.shape[0]).from_address(found.address) if found.shape[0] else ()


def _scales_of(given: Dict[str, Any], said: Any, name: str) -> Optional[Scales]:
    """What lies beside the codes of keys or values."""
    scales = given.get(f"{name}_scales")
    return None if scales is None else Scales(scales, given.get(f"{name}_zero_points"), said["tensor_scales"][name])


def _scale_in(found: View) -> float:
    """The number of a scale that may be traced."""
    kind = ctypes.c_double if found.type == "float64" else ctypes.c_float
    return float(kind.from_address(found.address).value)


def _seed_in(found: Optional[View]) -> int:
    """The number of two words of 32 bits, the lower one first."""
    low, high = (ctypes.c_uint32 * 2).from_address(found.address) if found else (0, 0)
    return int(low) | int(high) << 32


def _arguments(said: Any, views: List[View]) -> Tuple[BothWays, List[View]]:
    """The call, and the views that are left."""
    query, key, value, *rest = views
    given: Dict[str, Any] = dict(zip(said["optional"], rest))
    rest = rest[len(given):]
    given.update({name: _numbers(given[name]) for name in _NUMBERS if name in given})
    lengths, offsets = given.get("key_lengths"), given.get("offsets")
    beside = {f"{name}_scales": _scales_of(given, said, name) for name in ("key", "value")}
    of = sequences_of(query, key, value, lengths,
                      {**{name: given.get(name) for name in NAMES}, **said["types"], **beside})
    shape = of.batch, query.shape[1], of.rows, of.keys
    fields = of.fields + optional_fields(shape, query.type, given)
    causal, alignment, window, always, softcap, dropout, rounded, tf32 = said["options"]
    options = options_of(causal, alignment, offsets is not None, tuple(window), always, softcap, dropout,
                         allow_rounded_weights=rounded, allow_tf32=tf32)
    scale = said["scale"] if "scale" not in given else _scale_in(given["scale"])
    call = call_of(of.keys, scale, _seed_in(given.get("seed")))
    if said["text"]:
        source, functions, names, scalars, numbers = said["text"]
        loaded = [given[name] for name in _LOADED[:len(names)]]
        options += code_options(source, functions, names, loaded, scalars)
        fields = [*fields, *code_fields(loaded)]
        call.code_scalars[:len(numbers)] = numbers
    return BothWays(of, shape, fields, call, options + of.options), rest


def _blank(results: Sequence[View], of: Sequences) -> None:
    """Makes results 0, since what belongs to no packed sequence is not written; the logarithm of 0 in an lse."""
    for found in results if of.is_packed else ():
        count = math.prod(found.shape)
        if len(found.shape) == 3:
            (ctypes.c_float * count).from_address(found.address)[:] = [-math.inf] * count
        else:
            ctypes.memset(found.address, 0, count * _BYTES[found.type])


_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def _forward(said: Any, views: List[View], results: List[View]) -> None:
    (of, _, fields, call, options), _ = _arguments(said, views)
    _blank(results, of)
    run(default_context(), of.query, of.key, of.value, fields, call, options,
        [("out", results[0], _ROWS), ("lse", results[1], _ROWS[:3])])


def _backward(said: Any, views: List[View], results: List[View]) -> None:
    (of, shape, fields, call, options), (out, lse, dout, *dlse) = _arguments(said, views)
    full = learned_shapes(shape)
    _blank(results[:3], of)
    gradients = dict(zip(("dquery", "dkey", "dvalue"), results))
    for name, found in zip(said["gradients"], results[3:]):
        gradients[f"d{name}"] = broadcast(found, full[name], f"d{name}")
    run_backward(default_context(), of.query, of.key, of.value, fields, call, options, out, lse, dout, gradients,
                 dlse[0] if dlse else None)


_handlers = {"clattn_forward": _xla.handler(_forward), "clattn_backward": _xla.handler(_backward)}
for _name, _handler in _handlers.items():
    jax.ffi.register_ffi_target(_name, jax.ffi.pycapsule(_handler), platform="cpu")


def _call(name: str, results: Any, arrays: Sequence[Any], optional: Sequence[Any], said: Any, **more: Any) -> Any:
    """An operator of XLA."""
    given = {name: array for name, array in zip(_OPTIONAL, optional) if array is not None}
    words = dict(said)
    text = json.dumps({**words, "types": dict(words["types"]), "tensor_scales": dict(words["tensor_scales"]),
                       "optional": list(given), **more})
    operator: Any = jax.ffi.ffi_call(name, results, vmap_method="sequential")
    return operator(*arrays[:3], *given.values(), *arrays[3:], call=text)


def _results(query: Any, value: Any, said: Any) -> Tuple[Any, Any]:
    columns = columns_of(value.shape[3], dict(dict(said)["types"])["value_type"])
    return (jax.ShapeDtypeStruct((*query.shape[:3], columns), query.dtype),
            jax.ShapeDtypeStruct(query.shape[:3], jnp.float32))


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attention(query: Any, key: Any, value: Any, optional: Any, said: Any) -> Any:
    return _call("clattn_forward", _results(query, value, said), (query, key, value), optional, said)


def _attention_forward(query: Any, key: Any, value: Any, optional: Any, said: Any) -> Any:
    out, lse = _attention(query, key, value, optional, said)
    return (out, lse), (query, key, value, optional, out, lse)


def _attention_backward(said: Any, kept: Any, cotangents: Any) -> Any:
    query, key, value, optional, out, lse = kept
    given = dict(zip(_OPTIONAL, optional))
    wanted = [name for name in WITH_GRADIENTS if given[name] is not None]
    words = dict(said)
    unlike = [name for name in ("page_table", *_SCALES) if given[name] is not None]
    unlike += [name for name, kind in words["types"] if kind]
    if unlike:
        raise InvalidArgument(f"{unlike[0]}: keys in pages, and keys and values as codes, have no gradients; give key "
                              "and value dense, in a floating-point type")
    of_heads = jnp.float64 if query.dtype == jnp.float64 else jnp.float32  # what the library makes of single numbers
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (query, key, value)]
    results += [jax.ShapeDtypeStruct(given[name].shape, given[name].dtype if name == "bias" else of_heads)
                for name in wanted]
    found = _call("clattn_backward", results, (query, key, value, out, lse, *cotangents[:2 if words["has_lse"] else 1]),
                  optional, said,
                  gradients=wanted)
    gradients = {name: x.astype(given[name].dtype) for name, x in zip(wanted, found[3:])}
    return (*found[:3], tuple(gradients.get(name) for name in _OPTIONAL))


_attention.defvjp(_attention_forward, _attention_backward)


def _of_kind(array: Any, name: str, *kinds: Any) -> Any:
    """The array, whose type must be of these kinds: JAX would convert any other in silence."""
    array = array if hasattr(array, "dtype") else np.asarray(array)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in kinds):
        raise InvalidArgument(f"{name}: type {array.dtype}; must be {' or '.join(kind.__name__ for kind in kinds)}")
    return array


def _int32(array: Any, name: str) -> Any:
    """In int32. What does not fit becomes a number that no call may have."""
    array = _of_kind(array, name, jnp.integer)
    if not isinstance(array, jax.Array):  # JAX may cut its numbers off at 32 bits
        least = -1 if name == "key_lengths" else -2**31
        array = np.asarray(array).astype(object).clip(least, 2**31 - 1).astype(np.int32)
    elif array.dtype.itemsize > 4 or array.dtype == jnp.uint32:
        least = 0 if jnp.issubdtype(array.dtype, jnp.unsignedinteger) else -1 if name == "key_lengths" else -2**31
        array = jnp.clip(array, least, 2**31 - 1)
    return jnp.asarray(array, jnp.int32)


def _check_axes(query: Any, key: Any, value: Any) -> int:
    """How many axes all three have."""
    for name, array in (("query", query), ("key", key), ("value", value)):
        if array.ndim != query.ndim or not 2 <= query.ndim <= 4:
            raise InvalidShape(f"{name}: has shape {array.shape}; must be [batch, heads, rows, columns], all three "
                               "without batch, or without both")
    return int(query.ndim)


def _text(score: Optional[str], mask: Optional[str], slope: Optional[str],
          inputs: Optional[Dict[str, Any]]) -> Tuple[Any, List[Any]]:
    """What a call says of its text, None where it has none, and what the text loads."""
    text = text_of(score, mask, slope, inputs)
    if text is None:
        return None, []
    given = {name: x if hasattr(x, "shape") else np.asarray(x) for name, x in (inputs or {}).items()}
    arrays = {name: jnp.ravel(x) for name, x in given.items() if x.shape != ()}
    scalars = {name: number(x.item(), f"inputs[{name!r}]") for name, x in given.items() if x.shape == ()}
    if len(arrays) > MOST or len(scalars) > MOST:
        raise InvalidArgument(f"inputs: {len(arrays)} arrays and {len(scalars)} numbers; a text has at most {MOST} of "
                              "each")
    loaded = [x.astype(jnp.uint8) if x.dtype == bool else x for x in arrays.values()]
    return (text[0], tuple(text[1]), tuple(arrays), tuple(scalars), tuple(scalars.values())), loaded


def _scale_of(scale: Any) -> Tuple[Optional[float], Any]:
    """A number of Python, or an array of one, which may be traced and has a gradient."""
    if scale is None or not hasattr(scale, "dtype"):
        return None if scale is None else number(scale, "scale"), None
    scale = jnp.asarray(_of_kind(scale, "scale", jnp.floating))
    if scale.size != 1:
        raise InvalidShape(f"scale: has shape {scale.shape}; must be one number")
    return None, scale.astype(jnp.promote_types(scale.dtype, jnp.float32)).reshape(1)


def _seed_of(dropout: float, seed: Any) -> Any:
    """Two words of 32 bits, the lower one first, of a number of Python or of an array, which may be traced: integers,
    or a key of jax.random, which is two words."""
    if not dropout:
        if seed is not None:
            raise InvalidArgument("seed: would be ignored without dropout")
        return None
    if seed is None:
        raise InvalidArgument("dropout: needs a seed, a number or a key of jax.random: one that is drawn here would be "
                              "the same in each call of a compiled function")
    if not isinstance(seed, jax.Array) and getattr(seed, "shape", ()) == ():  # JAX may cut it off at 32 bits
        seed = whole(seed, "seed", 64, least=0)
        return jnp.asarray([seed & 0xffffffff, seed >> 32], jnp.uint32)
    words = jax.random.key_data(seed) if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) else jnp.asarray(seed)
    if not jnp.issubdtype(words.dtype, jnp.integer) or words.shape not in ((), (2,)):
        raise InvalidArgument(f"seed: {words.dtype} of shape {words.shape}; must be an integer, or a key of jax.random "
                              "of two words")
    if words.ndim:
        return words.astype(jnp.uint32)
    high = words >> 32 if words.dtype.itemsize > 4 else jnp.uint32(0)
    return jnp.stack([words.astype(jnp.uint32), high.astype(jnp.uint32)])  # the lower 32 bits


def attention(query: Any, key: Any, value: Any, *, mask: Any = None, bias: Any = None, causal: Optional[str] = None,
              alignment: Optional[str] = None, offsets: Any = None, window: Any = None, always_visible_keys: int = 0,
              scale: Any = None, softcap: Optional[float] = None, slopes: Any = None, sinks: Any = None,
              key_lengths: Any = None, dropout: float = 0.0, seed: Any = None, return_lse: bool = False,
              cu_query: Any = None, cu_key: Any = None, page_table: Any = None, page_starts: Any = None,
              row_low: Any = None, row_high: Any = None,
              key_type: Optional[str] = None, value_type: Optional[str] = None, key_scales: Any = None,
              value_scales: Any = None, allow_rounded_weights: bool = False, allow_tf32: bool = False,
              score: Optional[str] = None, score_slope: Optional[str] = None,
              inputs: Optional[Dict[str, Any]] = None, **others: Any) -> Any:
    """clattn.attention as an operator of XLA on the CPU: in jit, in vmap (one after the other), with gradients.

    Shapes and meanings are those of clattn.attention: [batch, heads, rows, columns], without batch or without both,
    where JAX's own has rows before heads. Arrays may be traced; causal, alignment, window, softcap and dropout are of
    Python. Gradients: query, key, value, bias, slopes, sinks, and scale where that is an array; through out and lse;
    packed sequences and row ranges too, but not keys in pages and codes.

    dropout draws by `seed`, which it needs: a number, an array without axes, or a key of jax.random. As a number it
    drops what clattn.attention drops by that.

    score, and mask where it is a str, are texts as of clattn.attention; gradients of a score need score_slope, its
    derivative with respect to s. Arrays in inputs may be traced and have no gradient, numbers are of Python.
    key_scales and value_scales are arrays, or clattn.Scales of arrays, whose tensor_scale is a number of Python.
    """
    if others:
        refuse_words("attention", others)
    axes = _check_axes(query, key, value)
    beside = [x if isinstance(x, Scales) else Scales(x) for x in (key_scales, value_scales)]
    text, loaded = _text(score, mask if isinstance(mask, str) else None, score_slope, inputs)
    mask = None if isinstance(mask, str) else mask
    query, key, value = (x.reshape((1,) * (4 - axes) + x.shape) for x in (query, key, value))
    kind = jnp.float64 if query.dtype == jnp.float64 else jnp.float32
    learned = [None if x is None else jnp.asarray(_of_kind(x, name, jnp.floating, jnp.integer), kind)
               for x, name in ((slopes, "slopes"), (sinks, "sinks"))]
    integers = [None if x is None else _int32(x, name) for x, name in zip(
        (key_lengths, offsets, cu_query, cu_key, page_starts, page_table, row_low, row_high), _NUMBERS + _TABLES)]
    batch = query.shape[0] if integers[2] is None else integers[2].size - 1
    for name, array in zip(_NUMBERS, integers):
        if array is not None and (array.ndim != 1 or (name in _NUMBERS[:2] and array.size != batch)):
            raise InvalidShape(f"{name}: has shape {array.shape}; must be [batch], here {(batch,)}, or of where "
                               "sequences begin and the last one ends")
    softcap = None if softcap is None else number(softcap, "softcap")
    dropout = number(dropout, "dropout")
    scale, of_scale = _scale_of(scale)
    options = (causal, alignment, window_of(window), whole(always_visible_keys, "always_visible_keys"), softcap,
               dropout, bool(allow_rounded_weights), bool(allow_tf32))
    said = (("options", options), ("scale", scale), ("has_lse", bool(return_lse)),
            ("types", (("key_type", key_type), ("value_type", value_type))),
            ("tensor_scales", tuple((name, number(x.tensor_scale, f"{name}_scales.tensor_scale"))
                                    for name, x in zip(("key", "value"), beside))), ("text", text))
    loaded += [None] * (MOST - len(loaded))
    scales = *(x.scales for x in beside), *(x.zero_points for x in beside)
    learned += [of_scale, _seed_of(dropout, seed)]
    out, lse = _attention(query, key, value, (mask, bias, *learned, *integers, *scales, *loaded), said)
    out, lse = out.reshape(out.shape[4 - axes:]), lse.reshape(lse.shape[4 - axes:])
    return (out, lse) if return_lse else out


# ---- by JAX's own signature ----


def _by_heads(array: Any, name: str) -> Any:
    """[batch, heads, rows, columns] of an array as JAX has it, with rows before heads."""
    array = jnp.asarray(array)
    if array.ndim not in (3, 4):
        raise InvalidShape(f"{name}: has shape {array.shape}; must be [batch, rows, heads, columns], all three without "
                           "batch, or without it")
    return array.swapaxes(-3, -2)


def dot_product_attention(query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *,
                          scale: Optional[float] = None, is_causal: bool = False, query_seq_lengths: Any = None,
                          key_value_seq_lengths: Any = None, local_window_size: Any = None,
                          implementation: Optional[str] = None, return_residual: bool = False) -> Any:
    """jax.nn.dot_product_attention, by clattn: [batch, rows, heads, columns], or without batch; with return_residual
    also lse [batch, rows, heads], in the key's type and without a gradient, as there.

    Causal masks and windows count from the first row and the first key. Rows at and behind query_seq_lengths are 0. A
    row that sees no key is 0 with lse -inf, where JAX's own has the mean of all values. implementation must be None:
    the others' names are of kernels of theirs.
    """
    if implementation is not None:
        raise InvalidArgument(f"implementation {implementation!r}: must be None; JAX's kernels are those of "
                              "jax.nn.dot_product_attention")
    lengths = (None if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths))
    rows, keys = (x[None] if x is not None and x.ndim == 0 else x for x in lengths)
    window = (local_window_size, local_window_size) if isinstance(local_window_size, int) else local_window_size
    three = [_by_heads(x, name) for x, name in ((query, "query"), (key, "key"), (value, "value"))]
    out, lse = attention(*three, mask=mask, bias=bias, causal="top-left" if is_causal else None, alignment="top-left",
                         window=window, scale=scale, key_lengths=keys, return_lse=True)
    out, lse = out.swapaxes(-3, -2), lse.swapaxes(-2, -1)
    if rows is not None:
        is_row = jnp.arange(out.shape[-3]) < rows.reshape(rows.shape + (1,) * (out.ndim - 3))
        out = jnp.where(is_row[..., None, None], out, 0)
    return (out, jax.lax.stop_gradient(lse.astype(key.dtype))) if return_residual else out
