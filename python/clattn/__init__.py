"""Attention for every OpenCL device, from Python.

    import clattn, numpy as np
    q = np.random.randn(1, 8, 512, 64).astype(np.float32)
    out = clattn.attention(q, q, q, causal="bottom-right")

clattn.torch serves PyTorch, clattn.transformers Hugging Face's models, clattn.jax JAX. The C library in full, under the
names of its headers, is clattn.library.
"""
import importlib
from typing import Any

from . import _library as library
from ._attention import Plan, attention, explain
from ._arrays import Scales
from ._cache import append, dequantise, dequantise_rows, quantise, quantise_rows, rotary, rotary_table
from ._context import Context, devices
from ._derivative_call import gradients
from ._errors import Error, Forked, InvalidArgument, InvalidShape, NoDevice, OutOfMemory, Unsupported
from ._key_sums import key_sums
from ._library import LibraryNotFound
from ._merge import merge
from ._show import show

__version__ = str(library.functions["clattn_version"]().decode())
__all__ = ["attention", "gradients", "key_sums", "merge", "rotary", "rotary_table", "append",
           "quantise", "dequantise", "quantise_rows", "dequantise_rows", "Scales",
           "Plan", "explain", "devices", "show", "Context", "library", "Error", "InvalidArgument",
           "InvalidShape",
           "Unsupported", "NoDevice", "OutOfMemory", "Forked", "LibraryNotFound"]


def __getattr__(name: str) -> Any:
    """The modules that need another package are imported where they are first named."""
    if name in ("torch", "transformers", "jax"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
