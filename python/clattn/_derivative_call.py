"""Gradients of arrays that no framework differentiates."""
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ._arrays import View, maker_of, view
from ._attention import attention, call_of
from ._context import Context, default_context
from ._errors import InvalidArgument, InvalidShape
from ._fields import _OUT_TYPES, broadcast, four_axes, optional_fields
from ._gradients import run_backward
from ._problem import number, options_of, refuse_words
from ._sequences import NAMES, sequences_of

_OF = ("query", "key", "value", "bias", "slopes", "sinks", "scale")
_REFUSED = ("page_table", "page_starts", "key_type", "value_type", "key_scales", "value_scales")


def _wanted(of: Iterable[str], given: Dict[str, Any]) -> List[str]:
    names = [of] if isinstance(of, str) else list(of)
    for name in names:
        if name not in _OF:
            raise InvalidArgument(f"of {name!r}: must be of {', '.join(_OF)}")
        if name in given and given[name] is None:
            raise InvalidArgument(f"of {name!r}: there is none")
    return names


def _results(query: View, dout: View, out: Any, lse: Any, recomputed: Any) -> Tuple[View, View]:
    """Views of four axes of the forward call's results, computed where they are not given."""
    if (out is None) != (lse is None):
        raise InvalidArgument("out, lse: give both, of one forward call, or none of them")
    if out is None:
        out, lse = recomputed()
    found = view(lse, "lse")
    lead = 3 - len(found.shape)
    if lead < 0:
        raise InvalidShape(f"lse: has shape {found.shape}; must be [batch, heads, rows], as the queries have them")
    return four_axes(view(out, "out"), "out"), found._replace(shape=(1,) * lead + found.shape,
                                                              strides=(0,) * lead + found.strides)


def gradients(query: Any, key: Any, value: Any, dout: Any, *, of: Iterable[str] = ("query", "key", "value"), out: Any = None,
              lse: Any = None, dlse: Any = None, mask: Any = None, bias: Any = None, causal: Optional[str] = None,
              alignment: Optional[str] = None, offsets: Optional[Iterable[int]] = None, window: Any = None,
              always_visible_keys: int = 0, scale: Optional[float] = None, softcap: Optional[float] = None,
              slopes: Any = None, sinks: Any = None, key_lengths: Optional[Iterable[int]] = None, dropout: float = 0.0,
              seed: int = 0, cu_query: Any = None, cu_key: Any = None, row_low: Any = None, row_high: Any = None,
              allow_rounded_weights: bool = False, allow_tf32: bool = False, context: Optional[Context] = None,
              **others: Any) -> Dict[str, Any]:
    """The gradients of attention() with the same arguments: {name: array}.

    dout   a loss's derivative at out, of its shape and type
    dlse   its derivative at lse; 0 where None
    of     of "query", "key", "value", "bias", "slopes", "sinks" and "scale" those that are wanted; each has the shape of
           what it is of, "scale" none
    out, lse   what the forward call gave, with return_lse; computed again where None. They may be of more keys than these,
           as when parts of them are merged

    The same to the last bit each time. Keys in pages and quantised ones have none. Raises as attention() does.
    """
    if others:
        unlike = sorted(set(others) & set(_REFUSED))
        if unlike:
            raise InvalidArgument(f"{unlike[0]}: keys in pages, and keys and values as codes, have no gradients")
        refuse_words("gradients", others)
    names = _wanted(of, {"bias": bias, "slopes": slopes, "sinks": sinks})
    more: Dict[str, Any] = {**dict.fromkeys(NAMES), "cu_query": cu_query, "cu_key": cu_key, "row_low": row_low,
                            "row_high": row_high}
    options = options_of(causal, alignment, offsets is not None, window, always_visible_keys, softcap, dropout, None, None,
                         allow_rounded_weights, allow_tf32)
    q = view(query, "query")
    axes = len(q.shape)
    q, k, v = four_axes(q, "query"), four_axes(view(key, "key"), "key"), four_axes(view(value, "value"), "value")
    for name, found in (("query", q), ("key", k), ("value", v)):
        if found.type not in _OUT_TYPES:
            raise InvalidArgument(f"{name}: type {found.type}; must be one of {', '.join(_OUT_TYPES)}")
    of_lengths = sequences_of(q, k, v, key_lengths, more)
    batch, heads, rows, keys = of_lengths.batch, q.shape[1], of_lengths.rows, of_lengths.keys
    fields = of_lengths.fields + optional_fields((batch, heads, rows, keys), batch, heads, mask, bias, slopes, sinks,
                                                 key_lengths, offsets)
    kind = "float64" if q.type == "float64" else "float32"

    def recomputed() -> Any:
        return attention(query, key, value, mask=mask, bias=bias, causal=causal, alignment=alignment, offsets=offsets,
                         window=window, always_visible_keys=always_visible_keys, scale=scale, softcap=softcap,
                         slopes=slopes, sinks=sinks, key_lengths=key_lengths, dropout=dropout, seed=seed, return_lse=True,
                         allow_rounded_weights=allow_rounded_weights, allow_tf32=allow_tf32, cu_query=cu_query,
                         cu_key=cu_key, row_low=row_low, row_high=row_high, context=context)

    d = four_axes(view(dout, "dout"), "dout")
    o, found_lse = _results(q, d, out, lse, recomputed)
    results: Dict[str, Any] = {}
    places: Dict[str, View] = {}
    full = {"bias": (batch, heads, rows, keys), "slopes": (batch, heads), "sinks": (heads,)}
    like = {"query": q, "key": k, "value": v}
    for name in names:
        if name in like:
            array = maker_of(query, like[name].shape[4 - axes:], like[name].type)()
            places[f"d{name}"] = four_axes(view(array, name, is_written=True), name)
        elif name == "scale":
            array = maker_of(query, (1,), kind)()
            places["dscale"] = view(array, name, is_written=True)
        else:
            given = view({"bias": bias, "slopes": slopes, "sinks": sinks}[name], name)
            array = maker_of(query, given.shape, given.type if name == "bias" else kind)()
            places[f"d{name}"] = broadcast(view(array, name, is_written=True), full[name], name)
        results[name] = array
    lses = None
    if dlse is not None:
        lses = view(dlse, "dlse")
        lead = max(3 - len(lses.shape), 0)
        lses = lses._replace(shape=(1,) * lead + lses.shape, strides=(0,) * lead + lses.strides)
    call = call_of(q, k, None if scale is None else number(scale, "scale"), seed, of_lengths.has_key_len)
    run_backward(context or default_context(), q, k, v, fields, call, options + of_lengths.options, o, found_lse, d, places,
                 lses)
    if "scale" in results:
        results["scale"] = float(results["scale"][0])
    return results
