"""The C library by ctypes: every public function, struct and constant of its headers, under their own names.

Calls release the GIL. A struct begins as its init function leaves it: `new("clattn_problem")`.
"""
import ctypes
import os
from typing import Any, Dict

from . import _layout, _runtime

_KINDS: Dict[str, Any] = {"int32": ctypes.c_int32, "uint32": ctypes.c_uint32, "int64": ctypes.c_int64,
                          "uint64": ctypes.c_uint64,
          "double": ctypes.c_double, "pointer": ctypes.c_void_p, "text": ctypes.c_char_p, "void": None,
          "float": ctypes.c_float}
_NAMES = ("libclattn.so.0", "libclattn.0.dylib", "libclattn.so", "libclattn.dylib")


class LibraryNotFound(ImportError):
    """There is no C library, or not the one that this package was made for."""


def _load() -> ctypes.CDLL:
    """CLATTN_LIBRARY, else the library in the package, else the system's."""
    named = os.environ.get("CLATTN_LIBRARY")
    own = [os.path.join(os.path.dirname(__file__), "lib", name) for name in _NAMES]
    candidates = [named] if named else [*filter(os.path.exists, own), *_NAMES]
    reasons = []
    for candidate in candidates:
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            reasons.append(str(error))
    raise LibraryNotFound("clattn: the C library was not found; install clattn, or set CLATTN_LIBRARY to its file:" +
                          "".join(f"\n  {reason}" for reason in reasons))


def _kind(words: str) -> Any:
    """A ctypes type: "int64", or "int64[4]"."""
    name, _, count = words.partition("[")
    return _KINDS[name] * int(count[:-1]) if count else _KINDS[name]


def _struct(name: str) -> Any:
    size, rows = _layout.STRUCTS[name]
    fields = [(field, _kind(kind)) for field, kind, _ in rows]
    made = type(name, (ctypes.Structure,), {"_fields_": fields, "__slots__": ()})
    wrong = [field for field, _, offset in rows if getattr(made, field).offset != offset]
    if wrong or ctypes.sizeof(made) != size:
        raise LibraryNotFound(f"clattn: {name} is laid out otherwise on this machine "
                              f"({', '.join(wrong) or 'its size'})")
    return made


def _declare(name: str) -> Any:
    result, arguments = _layout.FUNCTIONS[name]
    try:
        function = getattr(_dll, name)
    except AttributeError:
        raise LibraryNotFound(f"clattn: {_dll._name} has no {name}: it is older than this package") from None
    function.restype = _KINDS[result]
    function.argtypes = [_KINDS[kind] for kind in arguments]
    return function


_runtime.find()
_dll = _load()
structs: Dict[str, Any] = {}
for _name in _layout.STRUCTS:
    structs[_name] = _KINDS[_name] = _struct(_name)
functions = {_name: _declare(_name) for _name in _layout.FUNCTIONS}
constants = _layout.CONSTANTS
globals().update(structs)
globals().update(functions)
globals().update(constants)


def __getattr__(name: str) -> Any:
    """What the headers do not have. It also tells type checkers that the names above are there."""
    raise AttributeError(f"the headers of clattn declare no {name!r}")


def new(name: str, **fields: Any) -> Any:
    """A struct with its defaults, from the library itself, and these fields."""
    struct = structs[name]()
    functions[f"{name}_init"](ctypes.byref(struct), ctypes.sizeof(struct))
    for field, value in fields.items():
        setattr(struct, field, value)
        if isinstance(value, int) and (getattr(struct, field) or 0) != value:  # ctypes cuts off what does not fit
            kind = next(kind for known, kind, _ in _layout.STRUCTS[name][1] if known == field)
            raise ValueError(f"{name}.{field} {value}: does not fit {kind}")
    return struct


def _check_defaults() -> None:
    """A library of the same version begins its structs as the headers say that this package was made from."""
    if functions["clattn_version_number"]() != _layout.VERSION_NUMBER:
        return  # each takes the other's structs: see "Structs grow" in clattn.h
    for name, defaults in _layout.DEFAULTS.items():
        if bytes(new(name)).rstrip(b"\0") != bytes.fromhex(defaults):
            raise LibraryNotFound(f"clattn: {name} of {_dll._name} is not the one that this package was made for")


_check_defaults()
