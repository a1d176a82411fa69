"""RMS norms of rows, as rotary() and append() take them."""
from typing import Any, List, Tuple

from . import _library as lib
from ._arrays import View, view
from ._errors import InvalidArgument, InvalidShape
from ._fields import _DENSE
from ._problem import number

Place = Tuple[str, View, Tuple[int, ...]]


def _weights(given: Any, columns: int, name: str) -> View:
    found = view(given, name)
    if found.type != "float32" or found.shape != (columns,):
        raise InvalidShape(f"{name}: is {found.type} of shape {found.shape}; must be float32 of shape {(columns,)}, or "
                           "True")
    return found._replace(shape=(1, 1, 1, columns), strides=(0, 0, 0) + found.strides)


def set_norms(problem: Any, norms: Any, epsilon: Any) -> List[Place]:
    """Sets the problem's features and norm_epsilon. norms: for each (name, what the caller gave: None, False, True or
    weights, the feature, columns). Returns the tensors of weights, NAME_weight; of ones where another norm has some."""
    asked = [(name, given, feature, columns) for name, given, feature, columns in norms
             if given is not None and given is not False]
    if not asked:
        if epsilon is not None:
            raise InvalidArgument(f"norm_epsilon {epsilon!r}: nothing is normed; leave it out")
        return []
    if epsilon is None:
        raise InvalidArgument(f"norm_epsilon: is missing, though {asked[0][0]} is given; it is the model's "
                              "rms_norm_eps")
    problem.norm_epsilon = number(epsilon, "norm_epsilon")
    weighted = any(given is not True for _, given, _, _ in asked)
    places: List[Place] = []
    for name, given, feature, columns in asked:
        problem.features |= feature
        if weighted and feature != lib.CLATTN_WITH_VALUE_NORM:
            import numpy
            weights = numpy.ones(columns, numpy.float32) if given is True else given
            places.append((f"{name}_weight", _weights(weights, columns, name), _DENSE))
    problem.features |= lib.CLATTN_WITH_NORM_WEIGHTS if places else 0
    return places
