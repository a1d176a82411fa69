"""A score and a mask as a text in OpenCL C (include/clattn_code.h): the clattn_user_code of a problem, and its tensors
and scalars in a call."""
import ctypes
import functools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _library as lib
from ._arrays import View, view
from ._errors import InvalidArgument
from ._prepared import Field
from ._problem import Options, number

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


class Written(NamedTuple):
    """A score and a mask that a call gives as texts: what the problem, the tensors and the call have of them."""

    options: Options
    fields: List[Field]
    scalars: List[float]


_PARAMETERS = "INDEX b, INDEX h, INDEX i, INDEX j, USER"


def _function(name: str, text: str) -> str:
    """The text, where it defines the function; else the function whose result it is."""
    if name in text:
        return text
    kind, first = ("TRUTH", "") if name == "clattn_mask" else ("NUMBER", "NUMBER s, ")
    return f"{kind} {name}({first}{_PARAMETERS})\n{{\n    return {text};\n}}\n"


def text_of(score: Optional[str], mask: Optional[str], slope: Optional[str],
            inputs: Optional[Dict[str, Any]]) -> Optional[Tuple[str, List[str]]]:
    """The whole text and its functions; None where there is none, nor inputs for it."""
    given = (("clattn_score", score), ("clattn_mask", mask), ("clattn_score_slope", slope))
    texts = [(name, text) for name, text in given if text is not None]
    if not texts and inputs:
        raise InvalidArgument(f"inputs {sorted(inputs)}: are for a score or a mask that is a text, and there is none")
    return ("".join(_function(*text) for text in texts), [name for name, _ in texts]) if texts else None


def written(score: Optional[str], mask: Optional[str], inputs: Optional[Dict[str, Any]]) -> Optional[Written]:
    """None where there is no text. inputs: by the names that LOAD and SCALAR have, arrays and numbers."""
    text = text_of(score, mask, None, inputs)
    if text is None:
        return None
    views: Dict[str, View] = {}
    scalars: Dict[str, float] = {}
    for name, value in (inputs or {}).items():
        if hasattr(value, "shape") and value.shape != ():
            views[name] = _line(value, name)
        else:
            scalars[name] = number(value, f"inputs[{name!r}]")
    options = code_options(*text, list(views), list(views.values()), list(scalars))
    return Written(options, code_fields(list(views.values())), list(scalars.values()))


def _line(array: Any, name: str) -> View:
    """Its elements one behind the other, as the text counts them."""
    found = view(array.reshape(-1), f"inputs[{name!r}]")
    if found.type not in ELEMENTS:
        raise InvalidArgument(f"inputs[{name!r}]: type {found.type}; must be one of {', '.join(ELEMENTS)}")
    if found.shape[0] > 1 and found.strides[0] != 1:
        raise InvalidArgument(f"inputs[{name!r}]: must be dense")
    return found
