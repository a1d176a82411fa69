"""Operators of PyTorch that are made of others, which have lines in the text, by PyTorch's own decompositions."""
import functools
from typing import Any, Dict

import torch
from torch import Tensor

from ._flex_arrays import EACH, OF_ARRAYS
from ._flex_lines import FILLED, LINES, TRUTH_OF

# which the text has in a line, or in a function of its writer
_WRITTEN = set(LINES) | set(TRUTH_OF) | OF_ARRAYS | EACH | FILLED | {
    "clamp", "floor_divide", "remainder", "scalar_tensor", "full"}

# beside PyTorch's core decompositions
_MORE = ("tanh_backward", "sigmoid_backward", "silu_backward", "threshold_backward", "masked_fill", "gelu",
         "gelu_backward", "softplus", "softplus_backward", "elu", "elu_backward", "leaky_relu", "leaky_relu_backward",
         "log_sigmoid_forward", "log_sigmoid_backward", "hardtanh", "softshrink_backward", "hardshrink_backward",
         "_softmax", "_log_softmax", "split")


def _bucketize(of: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    of = of.unsqueeze(-1) if isinstance(of, Tensor) else of
    before: Tensor = boundaries <= of if right else boundaries < of
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _searchsorted(boundaries: Tensor, of: Any, *, out_int32: bool = False, right: bool = False, side: Any = None,
                  sorter: Any = None) -> Any:
    if sorter is not None or boundaries.dim() != 1:
        return NotImplemented
    return _bucketize(of, boundaries, out_int32=out_int32, right=right or side == "right")


def _embedding(table: Tensor, index: Tensor, *_: Any) -> Tensor:
    return torch.ops.aten.index.Tensor(table, [index])  # type: ignore[no-any-return]


def _take(of: Tensor, index: Tensor) -> Tensor:
    return torch.ops.aten.index.Tensor(of.reshape(-1), [index])  # type: ignore[no-any-return]


def _index_select(of: Tensor, axis: int, index: Tensor) -> Tensor:
    before: Any = [None] * (axis % max(of.dim(), 1))
    return torch.ops.aten.index.Tensor(of, [*before, index.reshape(-1)])  # type: ignore[no-any-return]


def _mm(a: Tensor, b: Tensor) -> Tensor:
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)


@functools.lru_cache(1)
def made_of_others() -> Dict[Any, Any]:
    aten = torch.ops.aten
    every = {**torch._decomp.core_aten_decompositions(),
             **torch._decomp.get_decompositions([getattr(aten, name) for name in _MORE])}
    found = {operator: made for operator, made in every.items()
             if operator._schema.name.rpartition("::")[2] not in _WRITTEN
             or operator in (aten.max.other, aten.min.other)}
    found.update({aten.bucketize.Tensor: _bucketize, aten.bucketize.Scalar: _bucketize,
                  aten.searchsorted.Tensor: _searchsorted, aten.searchsorted.Scalar: _searchsorted,
                  aten.embedding.default: _embedding, aten.take.default: _take,
                  aten.index_select.default: _index_select, aten.mm.default: _mm, aten.bmm.default: _mm})
    return found
