"""What an array of any package is to the library: where it lies, its type, shape and strides. Nothing is copied."""
import ctypes
import functools
import sys
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from . import _library as lib
from ._errors import InvalidArgument

TYPES = {"float32": lib.CLATTN_FLOAT32, "float16": lib.CLATTN_FLOAT16, "bfloat16": lib.CLATTN_BFLOAT16,
         "float64": lib.CLATTN_FLOAT64, "int8": lib.CLATTN_INT8, "float8_e4m3fn": lib.CLATTN_E4M3,
         "float8_e5m2": lib.CLATTN_E5M2}


class Code(NamedTuple):
    """How keys and values are stored that are no numbers of a machine: bytes of an element or block, its columns."""

    name: str  # of the type of a view
    bytes: int
    columns: int
    takes_scales: bool = False  # which are an array of their own
    scale_columns: int = 0  # that share one, a byte each; 0: float32, of as many as the caller likes
    has_zero_points: bool = False  # beside its scales
    has_tensor_scale: bool = False  # by which all are multiplied

    @property
    def makes_scales(self) -> bool:
        """Whether scales are made of the numbers, and stored beside their codes."""
        return self.has_zero_points or self.scale_columns > 0


CODES = {"int8": Code("int8", 1, 1, True), "e4m3": Code("float8_e4m3fn", 1, 1, True),
         "e5m2": Code("float8_e5m2", 1, 1, True), "int4": Code("int4", 1, 2, True),
         "q8_0": Code("q8_0", 34, 32), "q4_0": Code("q4_0", 18, 32), "q4_1": Code("q4_1", 20, 32),
         "q5_0": Code("q5_0", 22, 32), "q5_1": Code("q5_1", 24, 32),
         "mxfp4_ggml": Code("mxfp4_ggml", 17, 32), "nvfp4_ggml": Code("nvfp4_ggml", 36, 64),
         "u8": Code("u8", 1, 1, True, 0, True), "u4": Code("u4", 1, 2, True, 0, True),
         "mxfp8": Code("mxfp8", 1, 1, True, 32), "mxfp4": Code("mxfp4", 1, 2, True, 32),
         "nvfp4": Code("nvfp4", 1, 2, True, 16, False, True)}
STORED = {**TYPES, "q8_0": lib.CLATTN_Q8_0, "q4_0": lib.CLATTN_Q4_0, "q4_1": lib.CLATTN_Q4_1, "q5_0": lib.CLATTN_Q5_0,
          "q5_1": lib.CLATTN_Q5_1, "mxfp4_ggml": lib.CLATTN_MXFP4_GGML, "nvfp4_ggml": lib.CLATTN_NVFP4_GGML,
          "int4": lib.CLATTN_INT4, "u8": lib.CLATTN_U8, "u4": lib.CLATTN_U4, "mxfp8": lib.CLATTN_MXFP8,
          "mxfp4": lib.CLATTN_MXFP4, "nvfp4": lib.CLATTN_NVFP4}  # types of keys and values


class Scales(NamedTuple):
    """What lies beside the codes of keys or values: scales, of "u8" and "u4" float32 zero points of the same shape, of
    "nvfp4" the scale of the whole tensor."""

    scales: Any
    zero_points: Any = None
    tensor_scale: float = 1.0


class View(NamedTuple):
    """An array. `type`: its type's name, as NumPy and PyTorch call it. `strides` count elements."""

    address: int
    type: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    owner: Any  # keeps the memory alive
    offset: int = 0  # of the first element from the address, in elements
    opencl: int = 0  # the cl_context that the address, a cl_mem, is of; 0: an address of the host
    is_read_only: bool = False

    def from_lowest(self) -> "View":
        """The view with the address of the lowest element, which strides below 0 make another than the first."""
        for stride in self.strides:
            if stride < 0:
                break
        else:
            return self
        back = -sum(stride * (count - 1) for stride, count in zip(self.strides, self.shape) if stride < 0)
        sizes = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2}
        return self._replace(address=self.address - back * sizes.get(self.type, 1), offset=back)


_NO_CODE = Code("", 1, 1)
_CODE_NAMED = {code.name: code for code in CODES.values()}


def code_of(stored: View) -> Code:
    """What a view's elements are codes of; a Code that has nothing beside it where they are numbers."""
    return _CODE_NAMED.get(stored.type, _NO_CODE)


_numpy_names: Dict[Any, str] = {}  # dtype.name takes microseconds


def _numpy_name(dtype: Any) -> str:
    if not dtype.isnative:
        raise InvalidArgument(f"dtype {dtype.str}: must be of the machine's byte order")
    if len(_numpy_names) < 64:
        _numpy_names[dtype] = dtype.name
    return str(dtype.name)


def _only_numbers(array: Any, numpy: Any) -> Any:
    """A numpy.ndarray for one of a class of its own, or for a scalar, whose memory the interface gives for a moment."""
    masked = sys.modules.get("numpy.ma")
    if masked and isinstance(array, masked.MaskedArray):
        raise InvalidArgument(f"a {type(array).__name__}: has a mask of its own, which attention would not see; give "
                              "its .data or .filled(), and which keys may be seen as mask")
    return numpy.asarray(array)


def numpy_view(array: Any) -> View:
    """The view of a numpy.ndarray."""
    size = array.itemsize
    strides = tuple([stride // size for stride in array.strides])
    for stride in array.strides:
        if stride % size:
            raise InvalidArgument(f"strides {array.strides} of bytes: must be multiples of the element's {size} bytes")
    dtype = array.dtype
    name = _numpy_names.get(dtype) or _numpy_name(dtype)
    address, is_read_only = array.__array_interface__["data"]
    return View(address, name, array.shape, strides, array, is_read_only=is_read_only)


@functools.lru_cache(None)
def _storage_reader() -> Callable[[Any], int]:
    """What tells where a tensor's storage lies, to be read. data_ptr() asks for memory to write to, for which PyTorch
    copies a copy-on-write tensor."""
    import torch
    given: Optional[Callable[[Any], int]] = getattr(torch._C, "_data_address", None)
    return given or (lambda tensor: tensor.storage().data_ptr())


def torch_address(tensor: Any) -> int:
    """The address of the first element of a tensor that is read, or that is new."""
    return _storage_reader()(tensor) + tensor.storage_offset() * tensor.element_size() if tensor.numel() else 0


def torch_view(tensor: Any, is_written: bool = False) -> View:
    """The view of a torch.Tensor in the memory of the CPU."""
    if tensor.device.type != "cpu":
        raise InvalidArgument(f"a tensor on {tensor.device}: must be on the CPU")
    try:
        if tensor.is_neg():  # its memory has the numbers with the other sign
            tensor = tensor.resolve_neg()
        address = tensor.data_ptr() if is_written else torch_address(tensor)
        strides = tensor.stride()
    except (RuntimeError, TypeError) as error:  # sparse, nested, of a compiler or a transform
        raise InvalidArgument(f"a {type(tensor).__name__} without memory of its own ({str(error).splitlines()[0]}); "
                              "must be a dense tensor") from None
    if address == 0 and tensor.numel():
        raise InvalidArgument(f"a {type(tensor).__name__} without memory of its own; must be a dense tensor")
    return View(address, str(tensor.dtype)[6:], tuple(tensor.shape), strides, tensor)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DL_TYPES = {(0, 8): "int8", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (1, 32): "uint32", (2, 16): "float16",
             (2, 32): "float32",
             (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool"}
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, ctypes.c_char_p]
_CPU = (1, 3, 11)  # kDLCPU, and host memory that CUDA and ROCm pin
_NEVER_WRITTEN = ("jax", "jaxlib", "tensorflow")  # packages whose arrays nobody may write; not all say so by flags
_NOT_ITS_OWN = 1 | 2  # flags: read-only; a copy, which nobody would see written


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


def _dlpack_tensor(array: Any) -> Tuple[_DLTensor, Any, bool]:
    """(the tensor, its capsule, whether it must not be written) by version 1 of the protocol, else as it was before."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = array.__dlpack__()
    if _capsule_is(capsule, b"dltensor_versioned"):
        found = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if found.major != 1:
            raise InvalidArgument(f"DLPack of version {found.major}.{found.minor}: must be 1, or older")
        return found.tensor, capsule, bool(found.flags & _NOT_ITS_OWN)
    return _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor")), capsule, False


def _dlpack_view(array: Any) -> View:
    """By the DLPack protocol; the capsule is not consumed, so that it frees its tensor itself."""
    device = array.__dlpack_device__()
    if device[0] not in _CPU:
        raise InvalidArgument(f"an array on DLPack device {device}: must be in the memory of the CPU")
    tensor, capsule, is_read_only = _dlpack_tensor(array)
    is_read_only |= type(array).__module__.partition(".")[0] in _NEVER_WRITTEN
    kind = _DL_TYPES.get((tensor.code, tensor.bits))
    if kind is None or tensor.lanes != 1:
        raise InvalidArgument(f"DLPack type code {tensor.code} of {tensor.bits} bits: there is no such type here")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = [1] * tensor.ndim
    for i in range(tensor.ndim - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    if tensor.strides:
        strides = [tensor.strides[i] for i in range(tensor.ndim)]
    return View((tensor.data or 0) + tensor.byte_offset, kind, shape, tuple(strides), (array, capsule),
                is_read_only=is_read_only)


def _interface_view(array: Any) -> View:
    """By NumPy's array interface, without NumPy."""
    interface = array.__array_interface__
    for key in ("typestr", "shape"):
        if key not in interface:
            raise InvalidArgument(f"an array interface without {key}, which it must have")
    kinds = {"f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i4": "int32", "i8": "int64",
             "u1": "uint8", "u4": "uint32", "b1": "bool"}
    order, kind = interface["typestr"][0], interface["typestr"][1:]
    if kind not in kinds or order == (">" if sys.byteorder == "little" else "<"):
        raise InvalidArgument(f"typestr {interface['typestr']!r}: there is no such type here")
    size, shape = int(kind[1:]), tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is None:
        strides, step = [], size
        for extent in reversed(shape):
            strides.insert(0, step)
            step *= extent
    if len(strides) != len(shape) or any(extent < 0 for extent in shape):
        raise InvalidArgument(f"an array interface of shape {shape} with strides {tuple(strides)}: must have one "
                              "stride for each extent, and no extent below 0")
    if any(stride % size for stride in strides):
        raise InvalidArgument(f"strides {strides} of bytes: must be multiples of the element's {size} bytes")
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise InvalidArgument(f"an array interface whose data are {type(data).__name__}: must be (address, is "
                              "read-only)")
    if interface.get("mask") is not None:
        raise InvalidArgument("an array interface with a mask of its own, which attention would not see; give the "
                              "numbers alone, and which keys may be seen as mask")
    return View(data[0], kinds[kind], shape, tuple(stride // size for stride in strides), (array, interface),
                is_read_only=bool(data[1]))


def opencl_view(array: Any) -> View:
    """The view of a pyopencl.array.Array; the address is the cl_mem's."""
    size, memory = array.dtype.itemsize, array.base_data
    if not hasattr(memory, "int_ptr"):
        raise InvalidArgument(f"in a {type(memory).__name__}: must be in an OpenCL buffer, and not empty")
    if any(count % size for count in (array.offset, *array.strides)):
        raise InvalidArgument(f"offset {array.offset} and strides {array.strides} of bytes: must be multiples of the "
                              f"element's {size} bytes")
    return View(memory.int_ptr, _numpy_name(array.dtype), array.shape,
                tuple(stride // size for stride in array.strides), array, array.offset // size, memory.context.int_ptr)


def view(array: Any, name: str, opencl: int = 0, is_written: bool = False) -> View:
    """The view of any array; `name` is what messages call it. `opencl`: the cl_context that computes the call; 0: the
    host's. An address of the one means nothing in the other."""
    found = _any_view(array, name, is_written)
    if found.opencl != opencl:
        raise InvalidArgument(f"{name}: is {_PLACES[bool(found.opencl)]}, and the call computes {_PLACES[bool(opencl)]}"
                              f"{' of another context' if found.opencl and opencl else ''}; all arrays must be NumPy's "
                              "and the like, or all pyopencl's, of the context of query's queue")
    return found


_PLACES = ("in the memory of the host", "in an OpenCL buffer")


def _any_view(array: Any, name: str, is_written: bool) -> View:
    if isinstance(array, View):
        return array
    numpy = sys.modules.get("numpy")
    try:
        if numpy and isinstance(array, (numpy.ndarray, numpy.generic)):
            return numpy_view(array if type(array) is numpy.ndarray else _only_numbers(array, numpy)).from_lowest()
        if type(array).__module__ == "pyopencl.array":
            return opencl_view(array)
        if hasattr(array, "data_ptr") and hasattr(array, "stride"):
            return torch_view(array, is_written)
        if hasattr(array, "__dlpack__"):
            return _dlpack_view(array).from_lowest()
        if hasattr(array, "__array_interface__"):
            return _interface_view(array).from_lowest()
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None
    raise InvalidArgument(f"{name}: a {type(array).__name__} is no array; NumPy's, torch tensors and all with "
                          "__dlpack__ or __array_interface__ are")


def maker_of(like: Any, shape: Tuple[int, ...], kind: str) -> Callable[[], Any]:
    """What makes new arrays of a shape and type, of the package that `like` is from; else NumPy's."""
    if hasattr(like, "data_ptr") and hasattr(like, "new_empty"):
        import torch
        return functools.partial(torch.empty, shape, dtype=getattr(torch, kind), device="cpu")
    import numpy
    if kind == "bfloat16":
        import ml_dtypes
        return functools.partial(numpy.empty, shape, numpy.dtype(ml_dtypes.bfloat16))
    return functools.partial(numpy.empty, shape, numpy.dtype(kind))
