"""PyTorch's context_parallel on the CPU, while enable() is in force: each rank has a part of the rows, keys and values
go around the ring, and each step is a call of PyTorch's flash kernel for the CPU, which is clattn's then. PyTorch has
the ring, and lacks for the CPU what says that its flash kernel goes through it: two handlers, of the forward and the
backward operator. The ring is a private part of PyTorch; where it is not as it is known here, context_parallel stays as
it was."""
import importlib.abc
import importlib.util
import inspect
import sys
from typing import Any, Callable, Dict, Optional, Sequence

import torch
from torch import Tensor

from ._torch_calls import count, declined

_RING = "torch.distributed.tensor.experimental._context_parallel._attention"
_ROWS = 2  # the axis of rows of [batch, heads, rows, columns]
_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

_installed: Dict[Any, Callable[..., Any]] = {}
_waiting: Optional["_WhenImported"] = None


def _refuse(reason: str) -> None:
    """Ends a call at once: PyTorch's own way for a call without a rule is a search of minutes."""
    count(declined, f"context_parallel: {reason}")
    raise NotImplementedError(f"clattn: context_parallel on the CPU: {reason}")


def _given(operator: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """What a call gives, and the defaults of what it does not, by the names of the operator's schema."""
    found = {argument.name: argument.default_value for argument in operator._schema.arguments
             if argument.has_default_value()}
    found.update(zip((argument.name for argument in operator._schema.arguments), args))
    return {**found, **kwargs}


def _check(said: Dict[str, Any]) -> Any:
    """The query, of whose place the others must be too."""
    from torch.distributed.tensor import DTensor, Shard
    if said["attn_mask"] is not None:
        _refuse("a mask: the ring would need the part of each step; give is_causal, or call clattn.torch.attention on "
                "parts and clattn.merge")
    if said["dropout_p"]:
        _refuse("dropout: each rank would draw its own")
    query: Any = said["query"]
    for name in ("query", "key", "value"):
        x = said[name]
        if not isinstance(x, DTensor) or x.device_mesh != query.device_mesh or tuple(x.placements) != (Shard(_ROWS),):
            _refuse(f"{name}: must be cut along its rows, axis {_ROWS}, over a mesh of one axis")
    return query


def _whole(part: Tensor, like: Any) -> Any:
    """The distributed tensor whose part of this rank it is, cut as `like` is."""
    from torch.distributed.tensor import DTensor
    shape = torch.Size((*part.shape[:_ROWS], like.shape[_ROWS], *part.shape[_ROWS + 1:]))
    return DTensor.from_local(part, like.device_mesh, like.placements, run_check=False, shape=shape,
                              stride=torch.empty(shape, device="meta").stride())


def _forward(ring: Any) -> Callable[..., Any]:
    def handler(operator: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        said = _given(operator, args, kwargs)
        query = _check(said)
        parts = {name: said[name].to_local() for name in ("query", "key", "value")}
        found = ring._templated_ring_attention(query.device_mesh.get_group(), _ROWS, _FORWARD, **parts,
                                               is_causal=said["is_causal"], scale=said["scale"])
        return tuple(_whole(x, like=query) for x in found)

    return handler


def _backward(ring: Any) -> Callable[..., Any]:
    def handler(operator: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        said = _given(operator, args, kwargs)
        query = _check(said)
        parts = {name: said[name].to_local() for name in ("grad_out", "query", "key", "value", "out", "logsumexp")}
        found = ring._templated_ring_attention_backward(query.device_mesh.get_group(), _ROWS, _BACKWARD,
                                                        grad_out_name="grad_out", **parts, dropout_p=0.0,
                                                        is_causal=said["is_causal"], scale=said["scale"])
        return tuple(_whole(x, like) for x, like in zip(found, (query, said["key"], said["value"])))

    return handler


def _is_known(ring: Any) -> bool:
    """Whether PyTorch's ring is the one that the handlers call."""
    wanted = (("_templated_ring_attention", ("group", "seq_dim", "op", "query", "key", "value", "is_causal")),
              ("_templated_ring_attention_backward",
               ("group", "seq_dim", "op", "grad_out", "grad_out_name", "query", "key",
                                                      "value", "out", "logsumexp", "is_causal")))
    for name, arguments in wanted:
        function = getattr(ring, name, None)
        if function is None or tuple(inspect.signature(function).parameters)[:len(arguments)] != arguments:
            return False
    return isinstance(getattr(ring, "custom_ops", None), dict)


def _install(ring: Any) -> None:
    if not _is_known(ring):
        count(declined, f"context_parallel: its ring in PyTorch {torch.__version__} is not one that is known")
        return
    for operator, handler in ((_FORWARD.default, _forward(ring)), (_BACKWARD.default, _backward(ring))):
        if operator not in ring.custom_ops:
            ring.custom_ops[operator] = _installed[operator] = handler


class _WhenImported(importlib.abc.MetaPathFinder):
    """Installs the handlers when PyTorch's ring is imported, which takes a second that few programs want to wait
    for."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _RING:
            return None
        _stop_waiting()
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def and_install(module: Any) -> None:
            execute(module)
            _install(module)

        spec.loader.exec_module = and_install  # type: ignore[method-assign]
        return spec


def _stop_waiting() -> None:
    global _waiting
    if _waiting is not None:
        sys.meta_path.remove(_waiting)
        _waiting = None


def install() -> None:
    """Makes context_parallel work on the CPU, now or when it is imported."""
    global _waiting
    if not torch.distributed.is_available():
        return
    if _RING in sys.modules:
        _install(sys.modules[_RING])
    elif _waiting is None:
        _waiting = _WhenImported()
        sys.meta_path.insert(0, _waiting)


def remove() -> None:
    """context_parallel as PyTorch has it."""
    _stop_waiting()
    if _installed:
        custom_ops = sys.modules[_RING].custom_ops
        for operator, handler in _installed.items():
            if custom_ops.get(operator) is handler:
                del custom_ops[operator]
        _installed.clear()
