"""Rotary embedding of tensors, as an operator with gradients: turning back."""
from typing import Any, Optional

import torch
from torch import Tensor

from ._cache import rotary as _turned
from ._errors import InvalidArgument


@torch.library.custom_op("clattn::rotary", mutates_args=(), device_types="cpu")
def _operator(x: Tensor, cosine: Tensor, sine: Tensor, starts: Optional[Tensor], positions: Optional[Tensor],
              pairs: str, inverse: bool, first_column: int) -> Tensor:
    found: Tensor = _turned(x, cosine, sine, pairs=pairs, starts=None if starts is None else starts.tolist(),
                            positions=positions, inverse=inverse, first_column=first_column)
    return found


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    _, *tensors, ctx.pairs, ctx.inverse, ctx.first_column = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, grad: Tensor) -> Any:
    return (_operator(grad, *ctx.saved_tensors, ctx.pairs, not ctx.inverse, ctx.first_column), *[None] * 7)


_operator.register_fake(lambda x, *_: x.new_empty(x.shape))
_operator.register_autograd(_gradients, setup_context=_setup)


def rotary(x: Tensor, cosine: Any, sine: Any, *, pairs: Optional[str], starts: Any = None, positions: Any = None,
           inverse: bool = False, first_column: int = 0) -> Tensor:
    """clattn.rotary as a differentiable operator, whole in torch.compile: rows [batch, heads, rows, columns] turned by
    where they stand. cosine and sine, of rotary_table(), have no gradients: they are constants of a model."""
    tables = [torch.as_tensor(table) for table in (cosine, sine)]
    if torch.is_grad_enabled() and any(table.requires_grad for table in tables):
        raise InvalidArgument("cosine, sine: require gradients, and there are none of them; give them detached")
    where = [None if given is None else torch.as_tensor(given, device="cpu") for given in (starts, positions)]
    found: Tensor = _operator(x, *tables, *where, str(pairs), bool(inverse), int(first_column))
    return found
