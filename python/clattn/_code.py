"""A score and a mask as a text in OpenCL C (include/clattn_code.h): the clattn_user_code of a problem, and its tensors
and scalars in a call."""
import ctypes
import functools
from typing import Any, List, Sequence, Tuple

from . import _library as lib
from ._arrays import View
from ._prepared import Field
from ._problem import Options

ELEMENTS = {"float32": lib.CLATTN_ELEMENT_FLOAT32, "float16": lib.CLATTN_ELEMENT_FLOAT16,
            "bfloat16": lib.CLATTN_ELEMENT_BFLOAT16, "float64": lib.CLATTN_ELEMENT_FLOAT64,
            "int32": lib.CLATTN_ELEMENT_INT32, "uint8": lib.CLATTN_ELEMENT_UINT8, "bool": lib.CLATTN_ELEMENT_UINT8}
MOST = 8  # tensors of a text, and scalars
_FUNCTIONS = (("clattn_score", lib.CLATTN_CODE_SCORE), ("clattn_mask", lib.CLATTN_CODE_MASK),
              ("clattn_score_slope", lib.CLATTN_CODE_SCORE_SLOPE))


class _Address(int):
    """Where a struct lies, which lives as long as this."""

    struct: Any
    texts: List[bytes]


@functools.lru_cache(256)
def _code(source: str, functions: Tuple[str, ...], tensors: Tuple[Tuple[str, str, int], ...],
          scalars: Tuple[str, ...]) -> _Address:
    code = lib.new("clattn_user_code", functions=sum(bit for name, bit in _FUNCTIONS if name in functions),
                   tensor_count=len(tensors), scalar_count=len(scalars))
    texts = [source.encode(), *(name.encode() for name, _, _ in tensors), *(name.encode() for name in scalars)]
    addresses = [ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value for text in texts]
    code.source = addresses[0]
    for i, (_, kind, elements) in enumerate(tensors):
        code.tensors[i].name, code.tensors[i].element = addresses[1 + i], ELEMENTS[kind]
        code.tensors[i].elements = elements
    for i in range(len(scalars)):
        code.scalars[i] = addresses[1 + len(tensors) + i]
    found = _Address(ctypes.addressof(code))
    found.struct, found.texts = code, texts
    return found


def code_options(source: str, functions: Sequence[str], names: Sequence[str], views: Sequence[View],
                 scalars: Sequence[str]) -> Options:
    """The problem's; `functions`: those that the text has; `names`, `views`: its tensors, dense ones of one axis."""
    tensors = tuple((name, found.type, found.shape[0]) for name, found in zip(names, views))
    return (("code", _code(source, tuple(functions), tensors, tuple(scalars))),)


def code_fields(views: Sequence[View]) -> List[Field]:
    """The tensors of the text in a call."""
    return [(f"code_tensors[{i}]", found, ()) for i, found in enumerate(views)]
