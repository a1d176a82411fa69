"""What is computed, from the words of Python: the clattn_problem."""
import ctypes
import functools
import numbers
import operator
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from . import _library as lib
from ._arrays import STORED, TYPES, View
from ._errors import InvalidArgument

Options = Tuple[Tuple[str, Any], ...]

KEPT = 256  # problems with everything that a call needs but the addresses
_ALIGNMENTS = {"top-left": lib.CLATTN_ALIGN_TOP_LEFT, "bottom-right": lib.CLATTN_ALIGN_BOTTOM_RIGHT}
_WEIGHTS = {"scores": lib.CLATTN_WEIGHTS_SCORES, "softcap": lib.CLATTN_WEIGHTS_SOFTCAP,
            "logits": lib.CLATTN_WEIGHTS_LOGITS, "softmax": lib.CLATTN_WEIGHTS_SOFTMAX}

_ALIGNED = '"top-left", "bottom-right" or None; which rows stand at which keys is never guessed from shapes'
_WEIGHED = f"one of {', '.join(_WEIGHTS)}"


def alignment_of(causal: Optional[str], alignment: Optional[str], has_offsets: bool) -> int:
    """The alignment that a call asks for, by its three ways to say so."""
    for name, value in (("causal", causal), ("alignment", alignment)):
        if value is not None and value not in _ALIGNMENTS:
            raise InvalidArgument(f"{name} {value!r}: must be {_ALIGNED}")
    if causal and alignment and causal != alignment:
        raise InvalidArgument(f"causal {causal!r} and alignment {alignment!r}: must be the same where both are given")
    if has_offsets:
        if alignment or (causal and causal != "bottom-right"):
            raise InvalidArgument("offsets: say where rows stand; alignment, or causal=\"top-left\", would say it "
                                  "again")
        return int(lib.CLATTN_ALIGN_OFFSETS)
    return int(_ALIGNMENTS.get(causal or alignment or "", lib.CLATTN_ALIGN_UNSET))


_OTHERS_WORDS = {
    "is_causal": 'causal="top-left", where row 0 sees key 0, as PyTorch means it, or "bottom-right"',
    "attn_mask": "mask, where it is of bool (True where a row sees a key), or bias, which is added to the scores",
    "attention_mask": "mask, of bool, or key_lengths, where sequences are padded at their end",
    "key_padding_mask": "key_lengths, or mask[:, None, None, :] of bool, True where a key may be seen",
    "dropout_p": "dropout, and a seed", "enable_gqa": "nothing: key and value may have fewer heads",
    "softmax_scale": "scale", "window_size": "window, and causal or alignment", "alibi_slopes": "slopes",
    "cu_seqlens_q": "cu_query", "cu_seqlens_k": "cu_key", "block_table": "page_table", "cache_seqlens": "key_lengths"}


def refuse_words(function: str, others: Dict[str, Any]) -> None:
    """Raises for options that a function has not: what others call so is called otherwise here."""
    name = sorted(others)[0]
    if name in _OTHERS_WORDS:
        raise InvalidArgument(f"{name}: is not an option here; give {_OTHERS_WORDS[name]}")
    raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _is_truth(value: Any) -> bool:
    """Whether it is True or False of any package, which Python takes for 1 and 0."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")).rpartition(".")[2] == "bool"


def whole(number: Any, name: str, bits: int = 64, least: Optional[int] = None) -> int:
    """The integer of any package, which must have as many bits: ctypes would cut it off in silence."""
    try:
        found = int(operator.index(number))
    except TypeError:
        raise InvalidArgument(f"{name} {number}: must be an integer") from None
    if _is_truth(number):
        raise InvalidArgument(f"{name} {number}: must be an integer")
    least = -1 << (bits - 1) if least is None else least
    if not least <= found < least + (1 << bits):
        raise InvalidArgument(f"{name} {found}: must fit {bits} bits{'' if least else ' and not be negative'}")
    return found


def number(value: Any, name: str) -> float:
    """The real number of any package: float() would take text and truth too, and cut off what is imaginary."""
    if type(value) is float:
        return value
    if not isinstance(value, numbers.Real) and hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
        found = value.item()
    else:
        found = value
    if not isinstance(found, numbers.Real) or _is_truth(found):
        raise InvalidArgument(f"{name} {value!r}: must be a real number")
    return float(found)


def wholes(values: Iterable[Any], name: str, bits: int) -> List[int]:
    """whole() of several."""
    try:
        each = list(values)
    except TypeError:
        raise InvalidArgument(f"{name} {values!r}: must be a list of numbers") from None
    return [whole(value, name, bits) for value in each]


def window_of(window: Any) -> Tuple[int, int]:
    """(left, right) of None, a number (so many keys before, and none behind the diagonal), or a pair with None or -1
    for no bound."""
    if window is None:
        return -1, -1
    pair = window if isinstance(window, (tuple, list)) else (window, 0)
    if len(pair) != 2:
        raise InvalidArgument(f"window {window!r}: must be a number, or (before, behind)")
    left, right = (-1 if bound is None else whole(bound, "window") for bound in pair)
    return left, right


def problem_of(query: View, key: View, value: View, features: int, kinds: Mapping[str, str], options: Options) -> Any:
    """The clattn_problem of three views of four axes; `kinds` are the types of tensors by their names; `options` are
    those of options_of, and may have lengths that the views do not tell."""
    batch, heads, rows, columns = query.shape
    fields = {"batch": batch, "query_len": rows, "key_len": key_maximum(rows, key.shape[2]), **dict(options)}
    problem = lib.new("clattn_problem", type=TYPES[query.type], query_heads=heads, kv_heads=key.shape[1],
                      head_dim=columns, head_dim_v=value.shape[3], features=features,
                      **{f"{name}_type": TYPES[kinds[name]] for name in ("bias", "slopes", "sinks") if name in kinds},
                      **fields)
    if key.type != query.type:
        problem.key_type = STORED[key.type]
    if value.type != query.type and not problem.value_in_key:
        problem.value_type = STORED[value.type]
    problem.strided_columns = any(v.strides[3] != 1 and v.shape[3] > 1 for v in (query, key, value))
    return problem


def key_maximum(rows: int, keys: int) -> int:
    """The key_len of a plan. While a decoder's cache grows, the plan stays: few rows, and lengths to the next power of
    two."""
    return keys if rows > 8 or keys == 0 else max(128, 1 << (keys - 1).bit_length())


def options_of(causal: Optional[str] = None, alignment: Optional[str] = None, has_offsets: bool = False,
               window: Any = None, always_visible_keys: int = 0, softcap: Optional[float] = None, dropout: float = 0.0,
               weights: Optional[str] = None, strategy: Optional[str] = None, allow_rounded_weights: bool = False,
               allow_tf32: bool = False) -> Options:
    """Fields of the problem, as pairs of names and values."""
    left, right = window_of(window)
    if type(always_visible_keys) is not int:
        always_visible_keys = whole(always_visible_keys, "always_visible_keys")
    softcap = 0.0 if softcap is None else number(softcap, "softcap")
    return _options(_word(causal, "causal", _ALIGNED), _word(alignment, "alignment", _ALIGNED), has_offsets, left,
                    right, always_visible_keys, softcap, number(dropout, "dropout"),
                    _word(weights, "return_weights", _WEIGHED),
                    _word(strategy, "strategy", "a name that explain() tells"), bool(allow_rounded_weights),
                    bool(allow_tf32))


def _word(value: Any, name: str, rule: str) -> Optional[str]:
    if value is None or value is False:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} {value!r}: must be {rule}")
    return value or None


@functools.lru_cache(KEPT)  # of plain numbers and words: what may change would be found again by its identity
def _options(causal: Optional[str], alignment: Optional[str], has_offsets: bool, left: int, right: int,
             always_visible_keys: int, softcap: float, dropout: float, weights: Optional[str], strategy: Optional[str],
             allow_rounded_weights: bool, allow_tf32: bool) -> Options:
    if weights and weights not in _WEIGHTS:
        raise InvalidArgument(f"return_weights {weights!r}: must be {_WEIGHED}")
    return (("causal", int(bool(causal))), ("alignment", alignment_of(causal, alignment, has_offsets)),
            ("window_left", left), ("window_right", right),
            ("always_visible_keys", whole(always_visible_keys, "always_visible_keys")), ("softcap", softcap),
            ("dropout", dropout), ("weights", _WEIGHTS[weights] if weights else 0),
            ("allow_rounded_weights", int(allow_rounded_weights)), ("allow_tf32", int(allow_tf32)),
            *([("strategy", _text(strategy))] if strategy else []))


_texts: Dict[str, Any] = {}


def _text(name: str) -> int:
    """The address of a C string that stays, the same for every thread."""
    found = _texts.get(name)
    if found is None:
        found = _texts.setdefault(name, ctypes.create_string_buffer(name.encode()))
    return ctypes.addressof(found)
