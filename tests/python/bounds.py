"""How far attention and its gradients may be from float64's: the bounds of docs/numbers.md, elementwise, in float64
PyTorch.

Beside them, since here the gradients are of the library's own `out` and `lse` and not of the exact ones: what those are
off by, to the first order, half a unit in the last place where a result is stored in 16 bits, and the least number."""
import math
from typing import NamedTuple

import torch
from torch import Tensor

ROUNDED_LSE = 2.0**-24  # the share of an lse by which it is rounded, in every type
LONG_SUM = 216 / 4  # L / 4 of a strategy's longest way of a term: errors of sums grow no further with their terms


def computing(dtype):
    """(u, least number above 0 that is kept) of the type in which results of a type are computed."""
    kind = torch.finfo(dtype if dtype == torch.float64 else torch.float32)
    return kind.eps / 2, kind.tiny


class Problem(NamedTuple):
    """All in float64 and of four axes. Keys and values have the queries' heads or fewer."""

    query: Tensor
    key: Tensor
    value: Tensor
    dout: Tensor
    bias: Tensor  # of the full shape, -inf where a row does not see a key
    scale: float
    dtype: torch.dtype  # of the results


def stored(numbers, dtype):
    """What rounding to the type changes at most; that to the type of computing is in the bounds."""
    least = computing(dtype)[1]
    if dtype in (torch.float32, torch.float64):
        return least
    kind = torch.finfo(dtype)
    return kind.eps / 2 * numbers.abs() + max(least, kind.smallest_normal * kind.eps / 2)


def of_terms(count):
    """c: what a sum of so many random terms has beside its terms' own errors."""
    return count.sqrt().clamp(max=LONG_SUM)


def rss(terms, axis):
    return terms.square().sum(axis).sqrt()


class Attention:
    """Exact results and their bounds, by the names of docs/numbers.md."""

    def __init__(self, problem):
        self.of = problem
        query, key, value, dout, bias, scale, dtype = problem
        self.u, self.least = computing(dtype)
        self.group = query.shape[1] // key.shape[1]
        self.key, self.value = (x.repeat_interleave(self.group, 1) for x in (key, value))
        self.seen = bias.isfinite()
        shown = bias.masked_fill(~self.seen, 0.0)
        scores = (scale * query @ self.key.mT + bias).masked_fill(~self.seen, -math.inf)
        self.lse = scores.logsumexp(-1, keepdim=True)
        self.weights = torch.where(self.seen, (scores - self.lse).exp(), 0.0)
        self.lse = self.lse.masked_fill(self.lse.isinf(), 0.0)  # rows that see nothing
        self.out = self.weights @ self.value
        self.magnitude = torch.where(self.seen, abs(scale) * query.abs() @ self.key.abs().mT + shown.abs(), 0.0)  # A
        self.mean = (self.weights * self.magnitude).sum(-1, keepdim=True)  # Abar
        self.count = of_terms(self.seen.sum(-1, keepdim=True))  # c of n keys
        self.dscores = self.weights * (dout @ self.value.mT - (dout * self.out).sum(-1, keepdim=True))

    def forward(self):
        """Bounds of out, without the rounding to its type, and of lse."""
        factor = 4 * self.u * (math.sqrt(self.of.query.shape[3]) * self.mean + self.count + 8)
        out = factor * (self.weights @ self.value.abs()) + self.least * self.value.abs().sum(-2, keepdim=True)
        return out, factor + 4 * self.u * self.lse.abs() + (ROUNDED_LSE * self.lse.abs() if self.u < ROUNDED_LSE
                                                            else 0.0)

    def shared(self, sums, rule):
        """From the queries' heads to those of the keys, whose gradients add up."""
        split = sums.unflatten(1, (-1, self.group))
        return rss(split, 2) if rule == "rss" else split.sum(2)

    def results(self, bias_shape=None):
        """{name: (exact, bound)} of out, dquery, dkey, dvalue and, of a bias that was broadcast from a shape, dbias."""
        query, _, _, dout, _, scale, dtype = self.of
        out_error, lse_error = self.forward()
        out_error = out_error + stored(self.out, dtype)
        d_error = (dout.abs() * out_error).sum(-1, keepdim=True)
        e = (dout.abs() * torch.maximum(self.weights @ self.value.abs(), self.out.abs())).sum(-1, keepdim=True)
        y = torch.where(self.seen, dout.abs() @ self.value.abs().mT + e, 0.0)
        x = self.weights * y
        root, rounding = math.sqrt(max(query.shape[3], self.value.shape[3])), self.lse.abs() + self.count + 8
        each, row = (root * (1 + a + self.mean) + rounding for a in (self.magnitude, self.mean))  # W_ij, W_i
        handed = lse_error * self.dscores.abs() + d_error * self.weights  # of dS, by the out and lse that are given

        def of_rows(terms, y, given, other):
            """Bounds of sums over rows i and a group's heads of terms * other; terms are weights times at most y."""
            count = self.seen.sum(-2, keepdim=True) * self.group  # m
            exact = self.shared(terms.mT @ other, "sum")
            own = (((each + of_terms(count)) * self.weights * y).square() +
                   (given / (2 * self.u)).square()).mT @ other.square()
            count = count.mT[:, ::self.group]
            bound = 2 * self.u * (self.shared(own.sqrt(), "rss") + (of_terms(count) + 8) * exact.abs())
            return exact, bound + self.least * self.shared(y.mT @ other.abs(), "sum")

        exact = scale * self.dscores @ self.key
        bound = ((each * x).square() @ self.key.square()).sqrt() + row * e * (self.weights @ self.key).abs()
        bound = 2 * self.u * (abs(scale) * bound + row * exact.abs()) + lse_error * exact.abs()
        bound = bound + abs(scale) * (d_error * (self.weights @ self.key).abs() + self.least * (y @ self.key.abs()))
        found = {"out": (self.out, out_error), "dquery": (exact, bound),
                 "dkey": of_rows(scale * self.dscores, abs(scale) * y, abs(scale) * handed, query),
                 "dvalue": of_rows(self.weights, self.seen.double(), lse_error * self.weights, dout)}
        if bias_shape is not None:
            found["dbias"] = self.of_bias(bias_shape, each, x, handed + self.least * y)
        return {name: (right, bound + (0.0 if name == "out" else stored(right, dtype)))
                for name, (right, bound) in found.items()}

    def of_bias(self, shape, each, x, handed):
        full = (1,) * (4 - len(shape)) + tuple(shape)
        axes = [axis for axis in range(4) if self.dscores.shape[axis] != full[axis]]
        count = of_terms(torch.tensor(float(math.prod(self.dscores.shape[axis] for axis in axes))))
        own = ((each + count) * x).square() + (handed / (2 * self.u)).square()
        exact, own = (terms.sum(axes, keepdim=True) if axes else terms for terms in (self.dscores, own))
        return exact.reshape(shape), (2 * self.u * (own.sqrt() + (count + 8) * exact.abs())).reshape(shape)


def summed(pair, shape, dtype):
    """A gradient of an input that was expanded from a shape: the sum of what each of its copies has, every one
    stored."""
    exact, bound = pair
    axes = [axis for axis, count in enumerate((1,) * (exact.dim() - len(shape)) + tuple(shape)) if
            exact.shape[axis] != count]
    if exact.numel() == math.prod(shape) or not axes:
        return exact.reshape(shape), bound.reshape(shape)
    magnitude, exact, bound = (x.sum(axes) for x in (exact.abs(), exact, bound))
    return exact.reshape(shape), (bound + 2 * computing(dtype)[0] * magnitude + stored(exact, dtype)).reshape(shape)
