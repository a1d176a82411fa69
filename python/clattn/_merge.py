"""Results of attention over parts of the keys, merged, by the package that their arrays are of."""
import importlib
from typing import Any, Iterable, List, Tuple

from ._errors import InvalidArgument, InvalidShape


def _package_of(array: Any) -> Any:
    """The module of functions on such arrays, which have one name in all of these packages."""
    name = type(array).__module__.partition(".")[0]
    if name == "torch" or hasattr(array, "data_ptr"):
        return importlib.import_module("torch")
    return importlib.import_module("jax.numpy" if name in ("jax", "jaxlib") else "numpy")


def _wide(array: Any, package: Any) -> Any:
    """In float64, where the package has it: JAX has it only where it is enabled."""
    if package.__name__ == "torch":
        return array.double()
    return array.astype(package.promote_types(array.dtype, package.float32) if package.__name__ == "jax.numpy" else
                        package.float64)


def _checked(parts: Iterable[Tuple[Any, Any]]) -> Tuple[Any, List[Tuple[Any, Any]]]:
    """The package, and the pairs as arrays of it."""
    pairs = [tuple(part) for part in parts]
    if not pairs:
        raise InvalidArgument("parts: there must be at least one")
    if any(len(pair) != 2 for pair in pairs):
        raise InvalidArgument("parts: must be pairs (out, lse), as attention gives them with return_lse")
    package = _package_of(pairs[0][0])
    if package.__name__ == "numpy":
        pairs = [(package.asarray(out), package.asarray(lse)) for out, lse in pairs]
    first = pairs[0][0]
    for i, (out, lse) in enumerate(pairs):
        if _package_of(out) is not package or _package_of(lse) is not package:
            kinds = f"a {type(out).__name__} and a {type(lse).__name__}"
            raise InvalidArgument(f"part {i}: {kinds}; must be of part 0's package, {package.__name__}")
        if out.shape != first.shape or lse.shape != out.shape[:-1] or out.dtype != first.dtype:
            raise InvalidShape(f"part {i}: out is {out.dtype} of shape {tuple(out.shape)}, lse of {tuple(lse.shape)}; "
                               f"must be as part 0, {first.dtype} of {tuple(first.shape)}, and lse without columns")
    return package, pairs


def merge(parts: Iterable[Tuple[Any, Any]]) -> Tuple[Any, Any]:
    """(out, lse) over all keys from pairs of attention over parts of them, each with return_lse: [batch, heads, rows,
    columns] and [batch, heads, rows]. A part that saw no key (lse -inf) counts nothing. Arrays are NumPy's, torch
    tensors or JAX's, and so are results; PyTorch and JAX differentiate them. Computed in float64, in JAX in float32
    where it has no more, and rounded once."""
    package, pairs = _checked(parts)
    lses = package.stack([_wide(lse, package) for _, lse in pairs])
    top = package.amax(lses, 0)
    top = package.where(package.isneginf(top), package.zeros_like(top), top)
    shares = package.exp(lses - top)
    total = shares.sum(0)
    is_empty = total == 0
    total = package.where(is_empty, package.ones_like(total), total)
    sums: Any = 0
    for (out, _), share in zip(pairs, shares):  # what a part without keys has as out may be anything
        out = _wide(out, package)
        sums = sums + share[..., None] * package.where((share == 0)[..., None], package.zeros_like(out), out)
    lse = package.where(is_empty, package.full_like(top, -package.inf), top + package.log(total))
    found = sums / total[..., None]
    if package.__name__ == "torch":
        return found.to(pairs[0][0].dtype), lse.to(pairs[0][1].dtype)
    return found.astype(pairs[0][0].dtype), lse.astype(pairs[0][1].dtype)
