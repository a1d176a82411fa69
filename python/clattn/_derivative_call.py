"""Gradients of arrays that no framework differentiates."""
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ._arrays import View, maker_of, view
from ._attention import attention, call_of
from ._context import Context, default_context
from ._derivatives import refuse_gradients
from ._errors import InvalidArgument
from ._fields import _OUT_TYPES, WITH_GRADIENTS, broadcast, four_axes, learned_shapes, optional_fields, three_axes
from ._gradients import run_backward
from ._problem import number, options_of, refuse_words
from ._sequences import NAMES, sequences_of

_OF = ("query", "key", "value", *WITH_GRADIENTS)
_REFUSED = ("page_table", "page_starts", "key_type", "value_type", "key_scales", "value_scales")


def _wanted(of: Iterable[str], given: Dict[str, Any]) -> List[str]:
    names = [of] if isinstance(of, str) else list(of)
    for name in names:
        if name not in _OF:
            raise InvalidArgument(f"of {name!r}: must be of {', '.join(_OF)}")
        if name in given and given[name] is None:
            raise InvalidArgument(f"of {name!r}: there is none")
    return names


def _refuse(others: Dict[str, Any]) -> None:
    """Raises for options that gradients() has not."""
    unlike = sorted(set(others) & set(_REFUSED))
    if unlike:
        raise InvalidArgument(f"{unlike[0]}: keys in pages, and keys and values as codes, have no gradients; give key "
                              "and value dense, in a floating-point type")
    refuse_words("gradients", others)


def _inputs(query: Any, key: Any, value: Any) -> Tuple[int, View, View, View]:
    """How many axes there are, and views of four."""
    views = []
    for name, array in (("query", query), ("key", key), ("value", value)):
        found = view(array, name)
        if found.type not in _OUT_TYPES:
            raise InvalidArgument(f"{name}: type {found.type}; must be one of {', '.join(_OUT_TYPES)}")
        views.append(found)
    q, k, v = (four_axes(found, name) for found, name in zip(views, ("query", "key", "value")))
    return len(views[0].shape), q, k, v


def _new(names: Iterable[str], query: Any, axes: int, three: Sequence[View], learned: Dict[str, Any],
         shape: Tuple[int, ...]) -> Tuple[Dict[str, Any], Dict[str, View]]:
    """Arrays for the gradients of these names, of the package of `query`; and views by the library's names. `shape`:
    [batch, heads, rows, keys]."""
    kind = "float64" if three[0].type == "float64" else "float32"
    full = learned_shapes(shape)
    inputs = dict(zip(("query", "key", "value"), three))
    results: Dict[str, Any] = {}
    places: Dict[str, View] = {}
    for name in names:
        if name in inputs:
            like = inputs[name]
            array = maker_of(query, like.shape[4 - axes:], like.type)()
            places[f"d{name}"] = four_axes(view(array, name, is_written=True), name)
        else:
            given = (1,) if name == "scale" else view(learned[name], name).shape
            array = maker_of(query, given, view(learned[name], name).type if name == "bias" else kind)()
            places[f"d{name}"] = broadcast(view(array, name, is_written=True), full[name], name)
        results[name] = array
    return results, places


def _forward_results(out: Any, lse: Any, tensors: Tuple[Any, Any, Any], asked: Dict[str, Any]) -> Tuple[Any, Any]:
    """What the forward call gave, where it is given; else computed again."""
    if (out is None) != (lse is None):
        raise InvalidArgument("out, lse: give both, of one forward call, or none of them")
    return attention(*tensors, return_lse=True, **asked) if out is None else (out, lse)


def gradients(query: Any, key: Any, value: Any, dout: Any, *, of: Iterable[str] = ("query", "key", "value"),
              out: Any = None, lse: Any = None, dlse: Any = None, mask: Any = None, bias: Any = None,
              causal: Optional[str] = None, alignment: Optional[str] = None, offsets: Optional[Iterable[int]] = None,
              window: Any = None, always_visible_keys: int = 0, scale: Optional[float] = None,
              softcap: Optional[float] = None, slopes: Any = None, sinks: Any = None,
              key_lengths: Optional[Iterable[int]] = None, dropout: float = 0.0, seed: int = 0, cu_query: Any = None,
              cu_key: Any = None, row_low: Any = None, row_high: Any = None, allow_rounded_weights: bool = False,
              allow_tf32: bool = False, context: Optional[Context] = None, **others: Any) -> Dict[str, Any]:
    """The gradients of attention() with the same arguments: {name: array}.

    dout   a loss's derivative at out, of its shape and type
    dlse   its derivative at lse; 0 where None
    of     of "query", "key", "value", "bias", "slopes", "sinks" and "scale" those that are wanted; each has the shape
           of what it is of, "scale" none
    out, lse   what the forward call gave, with return_lse; computed again where None. They may be of more keys than
           these, as when parts of them are merged

    Results are the same to the last bit each time. Keys in pages and quantised ones have none. Raises as attention()
    does.
    """
    if others:
        _refuse(others)
    learned = {"bias": bias, "slopes": slopes, "sinks": sinks}
    refuse_gradients("gradients", query=query, key=key, value=value, dout=dout, dlse=dlse, **learned)
    names = _wanted(of, learned)
    options = options_of(causal, alignment, offsets is not None, window, always_visible_keys, softcap, dropout, None,
                         None, allow_rounded_weights, allow_tf32)
    axes, q, k, v = _inputs(query, key, value)
    ranges = {"cu_query": cu_query, "cu_key": cu_key, "row_low": row_low, "row_high": row_high}
    sequences = sequences_of(q, k, v, key_lengths, {**dict.fromkeys(NAMES), **ranges})
    shape = sequences.batch, q.shape[1], sequences.rows, sequences.keys
    fields = sequences.fields + optional_fields(shape, q.type, dict(learned, mask=mask, key_lengths=key_lengths,
                                                                    offsets=offsets))
    out, lse = _forward_results(out, lse, (query, key, value), dict(
        learned, **ranges, mask=mask, causal=causal, alignment=alignment, offsets=offsets, window=window,
        always_visible_keys=always_visible_keys, scale=scale, softcap=softcap, key_lengths=key_lengths,
        dropout=dropout, seed=seed, allow_rounded_weights=allow_rounded_weights, allow_tf32=allow_tf32,
        context=context))
    results, places = _new(names, query, axes, (q, k, v), learned, shape)
    for name in {"query", "key", "value"} & set(names) if sequences.is_packed else ():
        results[name][...] = 0.0
    call = call_of(sequences.keys, None if scale is None else number(scale, "scale"), seed)
    run_backward(context or default_context(), q, k, v, fields, call, options + sequences.options,
                 four_axes(view(out, "out"), "out"), three_axes(lse, "lse"), four_axes(view(dout, "dout"), "dout"),
                 places, None if dlse is None else three_axes(dlse, "dlse"))
    if "scale" in results:
        results["scale"] = float(results["scale"][0])
    return results
