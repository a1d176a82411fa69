"""XLA's foreign function interface, by ctypes: what xla/ffi/api/c_api.h of jaxlib lays down, as far as it is read here.

A handler is a C function that XLA calls with a frame of arguments, results and attributes. It is stable across versions
of JAX: fields are added at the end, and the version that is named here stays served.
"""
import ctypes
import functools
import json
from typing import Any, Callable, List, Optional

from ._arrays import View
from ._errors import Error, InvalidArgument, InvalidShape, OutOfMemory, Unsupported

_MAJOR, _MINOR = 0, 1  # of the interface that this file is written for
_METADATA, _EXECUTE, _STRING = 1, 3, 4  # an extension's type, a stage, an attribute's type
_TYPES = {1: "bool", 2: "int8", 4: "int32", 6: "uint8", 8: "uint32", 10: "float16", 11: "float32", 12: "float64",
          16: "bfloat16", 19: "float8_e5m2", 20: "float8_e4m3fn"}
_CODES = ((OutOfMemory, 8), (Unsupported, 12), ((InvalidArgument, InvalidShape), 3), (Error, 13), (Exception, 2))

_size, _pointer, _int = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int


def _struct(name: str, **fields: Any) -> Any:
    """Every struct begins with its size and a list of extensions."""
    return type(name, (ctypes.Structure,),
                {"_fields_": [("struct_size", _size), ("extension", _pointer), *fields.items()]})


_Buffer = _struct("Buffer", type=_int, data=_pointer, rank=ctypes.c_int64, extents=ctypes.POINTER(ctypes.c_int64))
_List = _struct("List", count=ctypes.c_int64, types=ctypes.POINTER(_int), items=ctypes.POINTER(_pointer))
_Attributes = _struct("Attributes", count=ctypes.c_int64, types=ctypes.POINTER(_int), names=_pointer,
                      items=ctypes.POINTER(_pointer))
_Frame = _struct("Frame", api=_pointer, context=_pointer, stage=_int, arguments=_List, results=_List,
                 attributes=_Attributes)
_Version = _struct("Version", major=_int, minor=_int)
_Api = _struct("Api", version=_Version, internal=_pointer, create_error=_pointer)
_NewError = _struct("NewError", message=ctypes.c_char_p, code=_int)


class _Span(ctypes.Structure):
    _fields_ = [("address", _pointer), ("bytes", _size)]


class _Extension(ctypes.Structure):
    _fields_ = [("struct_size", _size), ("type", _int), ("next", _pointer), ("metadata", _pointer)]


class _Metadata(ctypes.Structure):
    _fields_ = [("struct_size", _size), ("version", _Version), ("traits", ctypes.c_uint32)]


_create_error = ctypes.CFUNCTYPE(_pointer, ctypes.POINTER(_NewError))
_Handler = ctypes.CFUNCTYPE(_pointer, ctypes.POINTER(_Frame))


def _views(found: Any) -> List[View]:
    """Views of dense buffers."""
    views = []
    for i in range(found.count):
        buffer = _Buffer.from_address(found.items[i])
        shape = tuple(buffer.extents[:buffer.rank])
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        if buffer.type not in _TYPES:
            raise InvalidArgument(f"argument {i}: of XLA's type {buffer.type}, which there is not here")
        views.append(View(buffer.data or 0, _TYPES[buffer.type], shape, tuple(strides), None))
    return views


_parsed = functools.lru_cache(256)(json.loads)


def _attribute(attributes: Any) -> Any:
    """The one that there is, a JSON text."""
    if attributes.count != 1 or attributes.types[0] != _STRING:
        raise InvalidArgument("an operator of clattn has one attribute, a text; call it by clattn.jax.attention")
    span = _Span.from_address(attributes.items[0])
    return _parsed(ctypes.string_at(span.address, span.bytes))


def _tells_version(address: Optional[int]) -> bool:
    """Whether XLA asks for it, as when a handler is registered; says it."""
    while address:
        extension = _Extension.from_address(address)
        if extension.type == _METADATA:
            version = _Metadata.from_address(extension.metadata).version
            version.major, version.minor = _MAJOR, _MINOR
            return True
        address = extension.next
    return False


def _error(api: int, error: Exception) -> Any:
    """One of XLA's, which takes it."""
    create = _create_error(_Api.from_address(api).create_error)
    code = next(code for kinds, code in _CODES if isinstance(error, kinds))
    said = _NewError(struct_size=ctypes.sizeof(_NewError), message=str(error).encode(), code=code)
    return create(ctypes.byref(said))


def handler(function: Callable[[Any, List[View], List[View]], None]) -> Any:
    """A C function for XLA of one that takes (what the attribute says, views of arguments, views of results). It must
    live as long as the process."""

    def handle(frame: Any) -> Any:
        frame = frame.contents
        if _tells_version(frame.extension) or frame.stage != _EXECUTE:
            return None
        try:
            function(_attribute(frame.attributes), _views(frame.arguments), _views(frame.results))
        except Exception as error:  # pylint: disable=broad-except  # an exception would end here, unseen
            return _error(frame.api, error)
        return None

    return _Handler(handle)
