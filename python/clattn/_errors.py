"""Exceptions, one for each status of the library that says something of its own."""
import os
import sys

from . import _library as lib


class Error(RuntimeError):
    """A call failed. The text is the library's: field, value, rule, what to do. `status` is its clattn_status."""

    status = 0


class InvalidArgument(Error, ValueError):
    """A value out of its range, or a tensor that is missing."""


class InvalidShape(Error, ValueError):
    """Dimensions that do not fit each other."""


class Unsupported(Error, NotImplementedError):
    """Legal, but this device, build or version cannot do it."""


class NoDevice(Error):
    """No OpenCL device, or none of that name."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory ran out."""


class Forked(Error):
    """The process was forked after its parent had used OpenCL."""


_OF_STATUS = {
    lib.CLATTN_INVALID_ARGUMENT: InvalidArgument,
    lib.CLATTN_INVALID_SHAPE: InvalidShape,
    lib.CLATTN_UNSUPPORTED: Unsupported,
    lib.CLATTN_NO_DEVICE: NoDevice,
    lib.CLATTN_OUT_OF_HOST_MEMORY: OutOfMemory,
    lib.CLATTN_OUT_OF_DEVICE_MEMORY: OutOfMemory,
    lib.CLATTN_FORKED: Forked,
}


def error_of(status: int, text: bytes) -> Error:
    """What a status stands for, with the library's words."""
    error = _OF_STATUS.get(status, Error)(text.decode(errors="replace"))
    error.status = status
    return error


def check(status: int) -> None:
    """Raises what a status stands for; nothing for CLATTN_OK."""
    if status != lib.CLATTN_OK:
        text = lib.clattn_last_error().decode(errors="replace")
        if text.startswith("no OpenCL device") and sys.platform == "linux" and os.uname().machine == "x86_64":
            text += "; the package clattn[cpu] brings one for CPUs"
        raise error_of(status, text.encode())
