"""The tensors of a call as fields of the library's structs: views of arrays, the shapes that they must have."""
import ctypes
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from . import _library as lib
from ._arrays import STORED, TYPES, View, view
from ._derivatives import refuse_tangents
from ._errors import InvalidArgument, InvalidShape
from ._prepared import Field
from ._problem import Options, whole, wholes

_OUT_TYPES = ("float32", "float16", "bfloat16", "float64")
_REAL_TYPES = (*_OUT_TYPES, "int8", "int16", "int32", "int64", "uint8")


def four_axes(found: View, name: str) -> View:
    """A view of two to four axes as one of [batch, heads, rows, columns]."""
    count = len(found.shape)
    if count == 4:
        return found
    if count not in (2, 3):
        raise InvalidShape(f"{name}: has shape {found.shape}; must be [batch, heads, rows, columns], without batch, or "
                           "without both")
    lead = 4 - count
    return found._replace(shape=(1,) * lead + found.shape, strides=(0,) * lead + found.strides)


def three_axes(array: Any, name: str) -> View:
    """A view of [batch, heads, rows] for one of these or fewer axes."""
    found = view(array, name)
    lead = 3 - len(found.shape)
    if lead < 0:
        raise InvalidShape(f"{name}: has shape {found.shape}; must be [batch, heads, rows], as the queries have them")
    return found._replace(shape=(1,) * lead + found.shape, strides=(0,) * lead + found.strides)


def check_shapes(query: View, key: View, value: View) -> None:
    """What the library could not see, since it has one number for each."""
    if key.shape[0] != query.shape[0]:
        raise InvalidShape(f"batch: query has {query.shape[0]}, key {key.shape[0]}; must be equal")
    if key.shape[3] != query.shape[3]:
        raise InvalidShape(f"head_dim: query has {query.shape[3]} columns, key {key.shape[3]}; must be equal")
    if value.shape[:3] != key.shape[:3]:
        raise InvalidShape(f"key and value: batch, heads and rows are {key.shape[:3]} and {value.shape[:3]}; must be "
                           "equal")
    check_types(query, key, value)


def check_types(query: View, key: View, value: View) -> None:
    """Those that a problem may have."""
    for name, found in (("query", query), ("key", key), ("value", value)):
        if found.type not in TYPES and (name == "query" or found.type not in STORED):
            raise InvalidArgument(f"{name}: type {found.type}; must be one of {', '.join(TYPES)}")


def broadcast(array: Any, shape: Sequence[int], name: str, opencl: int = 0) -> View:
    """A view of the shape, with strides of 0 where the array has one element or lacks the axis."""
    found = view(array, name, opencl)
    lead = len(shape) - len(found.shape)
    given = (1,) * lead + found.shape
    if lead < 0 or any(own not in (1, wanted) for own, wanted in zip(given, shape)):
        raise InvalidShape(f"{name}: has shape {found.shape}, which does not broadcast to {tuple(shape)}")
    strides = (0,) * lead + found.strides
    strides = tuple(0 if own == 1 else stride for own, stride in zip(given, strides))
    return found._replace(shape=tuple(shape), strides=strides)


def of_heads(array: Any, name: str, query_type: str, opencl: int) -> Any:
    """The numbers of slopes and sinks, a number a head: those in float64 as they are where the queries are, else in
    float32."""
    if not isinstance(array, View) and not hasattr(array, "dtype"):
        import numpy
        array = numpy.asarray(array)
    found = view(array, name, opencl)
    if found.type not in _REAL_TYPES:
        raise InvalidArgument(f"{name}: type {found.type}; must be real numbers")
    if isinstance(array, View) or found.type == query_type == "float64":
        return array
    if type(array).__module__ == "pyopencl.array":
        return array.astype("float32")
    if hasattr(array, "data_ptr"):
        return array.detach().float()
    import numpy
    return numpy.asarray(array, dtype=numpy.float32)


def int32(values: Iterable[Any], count: int, name: str) -> Any:
    """A ctypes array of `count` numbers."""
    numbers = wholes(values, name, 32)
    if len(numbers) != count:
        raise InvalidShape(f"{name}: has {len(numbers)} numbers; must have {count}, one for each batch entry")
    return (ctypes.c_int32 * count)(*numbers)


def dense_integers(values: Any) -> View:
    """A view of a new array of int32, or of one of ctypes."""
    numbers = values if isinstance(values, ctypes.Array) else (ctypes.c_int32 * len(values))(*values)
    owner = numbers, memoryview(numbers).cast("B")
    return View(ctypes.addressof(numbers), "int32", (len(numbers),), (1,), owner)


_FEATURES = {"mask": lib.CLATTN_WITH_MASK, "slopes": lib.CLATTN_WITH_SLOPES, "sinks": lib.CLATTN_WITH_SINKS,
             "key_lengths": lib.CLATTN_WITH_KEY_LENGTHS, "lse": lib.CLATTN_WITH_LSE, "cu_query": lib.CLATTN_WITH_VARLEN,
             "page_table": lib.CLATTN_WITH_PAGES, "page_starts": lib.CLATTN_WITH_PAGE_STARTS,
             "row_low": lib.CLATTN_WITH_ROW_RANGES, "key_scales": lib.CLATTN_WITH_KEY_SCALES,
             "value_scales": lib.CLATTN_WITH_VALUE_SCALES, "block_mask": lib.CLATTN_WITH_BLOCK_MASK,
             "key_lists": lib.CLATTN_WITH_KEY_LISTS}
_ROWS, _HEADS, _HEAD, _DENSE = (0, 1, 2, 3), (0, 1), (1,), ()


def mask_of_bits(mask: Any, shape: Sequence[int]) -> Field:
    """The field of a mask that has a bit for each key, in words of 32: bytes to the library."""
    words = -(-shape[3] // 32)
    found = broadcast(mask, (*shape[:3], words), "mask")
    if words > 1 and found.strides[3] != 1:
        raise InvalidShape(f"mask: words of bits, {words} for {shape[3]} keys, must be neighbours; give a copy")
    strides = tuple(4 * step for step in found.strides[:3]) + (1,)
    return "mask", found._replace(type="uint8", shape=(*found.shape[:3], -(-shape[3] // 8)), strides=strides,
                                  offset=4 * found.offset), _ROWS


class Learned(NamedTuple):
    """A tensor of a call that has a gradient, beside queries, keys and values."""

    axes: Tuple[int, ...]  # of [batch, heads, rows, keys]
    is_of_heads: bool  # in float32, or float64 where the queries are; so is its gradient, in float64 where they are


LEARNED = {"bias": Learned(_ROWS, False), "slopes": Learned(_HEADS, True), "sinks": Learned(_HEAD, True)}
WITH_GRADIENTS = (*LEARNED, "scale")


def learned_shapes(shape: Sequence[int]) -> Dict[str, Tuple[int, ...]]:
    """Shapes of those in WITH_GRADIENTS, in a call of these [batch, heads, rows, keys]."""
    return {**{name: tuple(shape[axis] for axis in of.axes) for name, of in LEARNED.items()}, "scale": (1,)}


def optional_fields(shape: Sequence[int], query_type: str, given: Mapping[str, Any], opencl: int = 0) -> List[Field]:
    """(name, view, axes) of the tensors that a call may have, as far as `given` has them: mask, those in LEARNED,
    key_lengths, offsets. shape: [batch, heads, rows, keys]; query_type: the queries'. `opencl`: see view()."""
    fields: List[Field] = []
    mask = given.get("mask")
    if mask is not None:
        found = broadcast(mask, shape, "mask", opencl)
        if found.type not in ("bool", "uint8"):
            raise InvalidArgument(f"mask: type {found.type}; must be bool or uint8, True where a key may be seen; "
                                  "numbers that are added to the scores are a bias")
        fields.append(("mask", found, _ROWS))
    shapes = learned_shapes(shape)
    for name, of in LEARNED.items():
        array = given.get(name)
        if array is not None:
            array = of_heads(array, name, query_type, opencl) if of.is_of_heads else array
            found = broadcast(array, shapes[name], name, opencl)
            if found.type not in _OUT_TYPES:
                raise InvalidArgument(f"{name}: type {found.type}; must be one of {', '.join(_OUT_TYPES)}")
            fields.append((name, found, of.axes))
    for name, said in (("key_lengths", "key_lengths"), ("query_offsets", "offsets")):
        numbers = given.get(said)
        if numbers is not None:
            fields.append((name, dense_integers(int32(numbers, shape[0], said)), _DENSE))
    return fields


def masked_fields(shape: Sequence[int], query_type: str, first_key: Any,
                  given: Mapping[str, Any]) -> Tuple[List[Field], Options]:
    """optional_fields() where a mask and a bias may begin at `first_key`, and a mask be of bits; its options."""
    if first_key and given["mask"] is given["bias"] is None:
        raise InvalidArgument(f"mask_first_key {first_key}: needs a mask or a bias")
    masked = *shape[:3], shape[3] - whole(first_key, "mask_first_key", least=0)
    if masked[3] < 0:
        raise InvalidShape(f"mask_first_key {first_key}: must be 0 to the {shape[3]} keys")
    mask = given["mask"]
    if mask is None or view(mask, "mask").type != "uint32":
        return optional_fields(masked, query_type, given), ()
    return [mask_of_bits(mask, masked), *optional_fields(masked, query_type, {**given, "mask": None})], \
        (("mask_bits", 1),)


def output_field(array: Any, name: str, shape: Sequence[int], kinds: Sequence[str], opencl: int = 0) -> Field:
    """(name, view, axes) of an output, whose shape and type must be these. `opencl`: see view()."""
    found = view(array, name, opencl, is_written=True)
    if found.is_read_only:
        raise InvalidArgument(f"{name}: is read-only; give an array that may be written")
    if getattr(array, "requires_grad", False):
        raise InvalidArgument(f"{name}: requires a gradient, which writing to it would make wrong; give "
                              f"{name}.detach()")
    refuse_tangents(**{name: array})
    if getattr(array, "is_neg", bool)():
        raise InvalidArgument(f"{name}: has the negative bit, so that it is another tensor's numbers with the other "
                              f"sign; give {name}.resolve_neg(), or that tensor")
    found = four_axes(found, name) if len(shape) == 4 else found
    if name == "lse" and len(found.shape) < 3:
        lead = 3 - len(found.shape)
        found = found._replace(shape=(1,) * lead + found.shape, strides=(0,) * lead + found.strides)
    if found.shape != tuple(shape) or found.type not in kinds:
        raise InvalidShape(f"{name}: is {found.type} of shape {found.shape}; must be {' or '.join(kinds)} of shape "
                           f"{tuple(shape)}")
    return name, found, _ROWS[:len(shape)]


def features_of(every: Sequence[Field]) -> int:
    """The bits that the tensors of a call are in a problem."""
    return sum(_FEATURES.get(name, 0) for name, _, _ in every)
