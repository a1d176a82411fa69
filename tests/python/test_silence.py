"""What would be wrong in silence: memory that means more than its bytes, numbers that would be cut off, results that
someone else relies on. Each is right, or an error that names the argument."""
import copy
import ctypes
import gc
import importlib.util
import pickle
import unittest
import warnings
from unittest import mock

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad

import clattn
import clattn.torch


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


class Case(unittest.TestCase):
    def setUp(self):
        self.three = normal(2, 4, 9, 16), normal(2, 2, 13, 16, seed=1), normal(2, 2, 13, 12, seed=2)
        self.names = "query", "key", "value"

    def refused(self, text, *arrays, error=clattn.InvalidArgument, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning is not enough
            with self.assertRaisesRegex(error, text):
                clattn.attention(*(arrays or self.three), **options)

    def same(self, found, right):
        self.assertEqual(np.shape(found), np.shape(right))
        self.assertTrue(np.array_equal(np.asarray(found), np.asarray(right)))


class Interface:
    """An array of another package, by NumPy's array interface."""

    def __init__(self, array, **fields):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **fields}


class DLPack:
    """An array of another package, of DLPack before version 1 or of it."""

    def __init__(self, array, is_old=False):
        self.array, self.is_old = array, is_old

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        if self.is_old and options:
            raise TypeError("no such argument")
        return self.array.__dlpack__(**options)


class Memory(Case):
    """Arrays of NumPy and others."""

    def test_a_masked_array_is_refused(self):
        for i, name in enumerate(self.names):
            given = list(self.three)
            given[i] = np.ma.masked_array(given[i], given[i] > 1)
            self.refused(f"^{name}: a MaskedArray", *given)
        ones = np.ones((9, 13), np.float32)
        self.refused("^mask: a MaskedArray", mask=np.ma.masked_array(ones > 0, ones > 0))
        self.refused("^bias: a MaskedArray", bias=np.ma.masked_array(ones, ones > 0))
        for name in ("slopes", "sinks"):
            self.refused(f"^{name}: a MaskedArray", alignment="top-left",
                         **{name: np.ma.masked_array(np.ones(4), [0, 1, 0, 0])})
        self.refused("^out: a MaskedArray", out=np.ma.zeros((2, 4, 9, 12), np.float32))
        hidden = Interface(self.three[0], mask=Interface(np.ones(self.three[0].shape, bool)))
        self.refused("^query: .*a mask of its own", hidden, *self.three[1:])

    def test_a_scalar_of_numpy_is_a_number(self):
        for number in (np.float32(2.5), np.float16(-3.0)):
            bias = np.full((9, 13), number)
            for _ in range(20):
                self.same(clattn.attention(*self.three, bias=number), clattn.attention(*self.three, bias=bias))
        self.same(clattn.attention(*self.three, mask=np.bool_(True)), clattn.attention(*self.three))

    def test_subclasses_of_numpy_that_are_only_numbers(self):
        class Named(np.ndarray):
            pass

        self.same(clattn.attention(*[x.view(Named) for x in self.three]), clattn.attention(*self.three))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy would rather have no matrices
            two = [x[0, 0] for x in self.three]
            self.same(clattn.attention(*[np.asmatrix(x) for x in two]), clattn.attention(*two))

    def test_an_interface_whose_data_are_elsewhere(self):
        for data in (b"ab", b"abcd", None):
            self.refused("^query: .*data", Interface(self.three[0], data=data), *self.three[1:])

    def test_an_interface_that_is_not_whole(self):
        for wrong in ({"strides": (4,)}, {"strides": ()}, {"strides": (4,) * 5}, {"shape": (2, 4, 9, -16)}):
            self.refused("^query: an array interface of shape", Interface(self.three[0], **wrong), *self.three[1:])
        for missing in ("shape", "typestr"):
            given = Interface(self.three[0])
            del given.__array_interface__[missing]
            self.refused(f"^query: an array interface without {missing}", given, *self.three[1:])

    def test_a_context_is_one_however_often_it_is_copied(self):
        for copied in (copy.copy, copy.deepcopy):
            context = clattn.Context()
            other = copied(context)
            right = clattn.attention(*self.three, context=context)
            del context
            gc.collect()
            self.same(clattn.attention(*self.three, context=other), right)
            del other
            gc.collect()
        plan = clattn.Plan(self.three[0].shape, self.three[1].shape, head_dim_v=12, context=clattn.Context())
        self.same(copy.deepcopy(plan)(*self.three), plan(*self.three))
        with self.assertRaisesRegex(clattn.InvalidArgument, "cannot be pickled"):
            pickle.dumps(plan)

    def test_bytes_in_the_other_order(self):
        swapped = self.three[0].astype(self.three[0].dtype.newbyteorder())
        self.refused("^query: .*byte order", swapped, *self.three[1:])
        self.refused("^query: ", Interface(swapped), *self.three[1:])
        self.refused("^bias: .*byte order", bias=np.ones((9, 13), np.dtype(np.float32).newbyteorder()))
        self.refused("^out: .*byte order", out=np.ones((2, 4, 9, 12), np.dtype(np.float32).newbyteorder()))

    def test_dlpack_says_what_may_be_written(self):
        right = clattn.attention(*self.three)
        for is_old in (False, True):
            self.same(clattn.attention(*[DLPack(x, is_old) for x in self.three]), right)
            out = np.zeros_like(right)
            clattn.attention(*self.three, out=DLPack(out, is_old))
            self.same(out, right)
        frozen = np.zeros_like(right)
        frozen.flags.writeable = False
        self.refused("^out: is read-only", out=DLPack(frozen))
        self.assertTrue((frozen == 0).all())
        read = self.three[0].copy()
        read.flags.writeable = False
        self.same(clattn.attention(DLPack(read), *self.three[1:]), right)

    @unittest.skipUnless(importlib.util.find_spec("jax"), "no jax")
    def test_jax_arrays_are_never_written(self):
        import jax.numpy as jnp
        frozen = jnp.zeros((2, 4, 9, 12))
        self.refused("^out: is read-only", out=frozen)
        self.assertTrue((np.asarray(frozen) == 0).all())
        self.same(clattn.attention(*[jnp.asarray(x) for x in self.three]), clattn.attention(*self.three))

    def test_out_lies_on_an_input_or_on_itself(self):
        square, key, value = normal(2, 4, 9, 16), normal(2, 4, 9, 16, seed=1), normal(2, 4, 10, 16, seed=2)
        right = clattn.attention(square, key, value[:, :, 1:])
        for turn in (1, -1):
            here = square.copy()
            out = clattn.attention(here, key, value[:, :, 1:], out=here[:, :, ::turn])
            self.same(out, right)
        here = value.copy()
        self.same(clattn.attention(square, key, here[:, :, 1:], out=here[:, :, :-1]), right)
        for strides in ((0, 0, 64, 4), (0, 576, 64, 4), (64, 64, 64, 4)):
            out = np.lib.stride_tricks.as_strided(normal(80, 16), (2, 4, 9, 16), strides)
            self.refused("^out", square, key, value[:, :, 1:], out=out)

    def test_complex_numbers_are_refused(self):
        for name in ("slopes", "sinks"):
            for array in (np.ones(4, np.complex64), torch.ones(4, dtype=torch.complex64), [1j, 1, 1, 1]):
                self.refused(f"^{name}: ", alignment="top-left", **{name: array})
        for name in ("scale", "softcap", "dropout"):
            self.refused(f"^{name} ", **{name: np.complex64(1 + 2j)})


class Numbers(Case):
    """What ctypes would cut off, and what Python takes for a number."""

    def test_whole_numbers(self):
        for wrong in ([5, True], np.array([True, True]), torch.tensor([True, True]), [5, 2.0], np.array([5.0, 6.0]),
                      torch.tensor([5.0, 6.5]), torch.tensor([5, 2**32 + 5]), np.array([5, -2**31 - 1])):
            self.refused("^key_lengths ", key_lengths=wrong)
            self.refused("^offsets ", offsets=wrong, causal="bottom-right")
        self.refused("key_len", key_lengths=[5, 14], error=clattn.Error)
        self.refused("key_len", key_lengths=[5, -1], error=clattn.Error)
        for name in ("window", "always_visible_keys"):
            for wrong in (True, 1.0, torch.tensor(1.5), 2**64):
                self.refused(f"^{name} ", **{"window": 2, "alignment": "top-left", name: wrong})
        self.refused("window", window=(-2, 0), alignment="top-left", error=clattn.Error)

    def test_seeds(self):
        for seed in (-1, 2**64, 1.5, True):
            self.refused("^seed ", dropout=0.5, seed=seed)
        clattn.attention(*self.three, dropout=0.5, seed=2**64 - 1)

    def test_numbers_with_a_point(self):
        for name in ("scale", "softcap", "dropout"):
            for wrong in (True, "0.5", b"1", [0.5], np.ones(2), torch.ones(2), np.bool_(True), float("nan")):
                self.refused(name, **{name: wrong})
        for number in (np.float32(0.5), np.array(0.5), torch.tensor(0.5)):
            for name in ("scale", "softcap"):
                self.same(clattn.attention(*self.three, **{name: number}), clattn.attention(*self.three, **{name: 0.5}))

    def test_a_number_that_changes(self):
        """What is kept of a call is kept by value."""
        softcap = torch.tensor(0.5)
        clattn.attention(*self.three, softcap=softcap)
        softcap.fill_(2.0)
        self.same(clattn.attention(*self.three, softcap=softcap), clattn.attention(*self.three, softcap=2.0))

    def test_words(self):
        for options in ({"strategy": 5}, {"causal": 5}, {"return_weights": True}, {"alignment": True}):
            self.refused("must be", **options)

    def test_fields_of_structs(self):
        new = clattn.library.new
        self.assertEqual(new("clattn_problem", batch=2**63 - 1, features=2**32 - 1).batch, 2**63 - 1)
        for field, wrong in (("batch", 2**63), ("features", -1), ("causal", 2**32 + 1)):
            with self.assertRaisesRegex(ValueError, f"^clattn_problem.{field} {wrong}: does not fit"):
                new("clattn_problem", **{field: wrong})
        with self.assertRaises(AttributeError):
            new("clattn_problem", heads=1)

    def test_the_name_of_a_strategy_stays_where_it_is(self):
        """Though another thread gives the same name while the first one makes room for it."""
        problem, create, found = clattn._problem, ctypes.create_string_buffer, []

        def slow(text):
            if not found:
                found.append(0)
                found[0] = problem._text("a name")
            return create(text)

        with mock.patch.object(problem.ctypes, "create_string_buffer", slow):
            self.assertEqual(problem._text("a name"), found[0])
        self.assertEqual(ctypes.string_at(found[0]), b"a name")

    def test_a_plan_refuses_what_it_would_not_take(self):
        with self.assertRaisesRegex(TypeError, "casual"):
            clattn.Plan((1, 2, 3, 8), casual="top-left")
        with self.assertRaisesRegex(TypeError, "mask"):
            clattn.Plan((1, 2, 3, 8), mask=np.ones((3, 3), bool))
        plan = clattn.Plan(self.three[0].shape, self.three[1].shape, head_dim_v=12, scale=0.5, return_lse=True)
        self.assertEqual(len(plan(*self.three)), 2)
        with self.assertRaisesRegex(clattn.InvalidShape, "^value: "):
            plan(*self.three[:2], self.three[2][..., :8])


class Tensors(Case):
    """Tensors of PyTorch."""

    def setUp(self):
        super().setUp()
        self.three = tuple(torch.from_numpy(x) for x in self.three)

    def negated(self, tensor):
        """Equal numbers, of memory that holds them with the other sign."""
        found = torch.complex(torch.zeros_like(tensor), -tensor).conj().imag
        self.assertTrue(found.is_neg() and torch.equal(found, tensor))
        return found

    def test_the_negative_bit(self):
        right, bias = clattn.attention(*self.three), torch.ones(9, 13)
        for i in range(3):
            given = list(self.three)
            given[i] = self.negated(given[i])
            self.same(clattn.attention(*given), right)
            self.same(clattn.torch.attention(*given), right)
        right = clattn.attention(*self.three, bias=bias, sinks=torch.ones(4))
        self.same(clattn.attention(*self.three, bias=self.negated(bias), sinks=self.negated(torch.ones(4))), right)
        self.refused("^out: .*negative bit", out=self.negated(torch.zeros(2, 4, 9, 12)))

    def test_the_negative_bit_of_scaled_dot_product_attention(self):
        given = [self.negated(x) for x in (self.three[0], *[self.three[1].repeat(1, 2, 1, 1)] * 2)]
        right = torch.nn.functional.scaled_dot_product_attention(*given)
        clattn.torch.enable()
        try:
            found = torch.nn.functional.scaled_dot_product_attention(*given)
        finally:
            clattn.torch.disable()
        self.assertLessEqual((found - right).abs().max().item(), 2e-6)

    def test_tangents_are_not_dropped(self):
        with forward_ad.dual_level():
            for i, name in enumerate(self.names):
                given = list(self.three)
                given[i] = forward_ad.make_dual(given[i], torch.ones_like(given[i]))
                self.refused(f"^{name}: .*tangent", *given, error=clattn.Unsupported)
            dual = forward_ad.make_dual(torch.ones(4), torch.ones(4))
            self.refused("^sinks: .*tangent", sinks=dual, error=clattn.Unsupported)

    def test_gradients_of_numbers(self):
        for name in ("scale", "softcap"):
            number = torch.tensor(0.5, requires_grad=True)
            self.refused(f"^{name}: requires a gradient", **{name: number})
            for wants in (False, True):
                given = self.three[0].clone().requires_grad_(wants), *self.three[1:]
                if name == "scale":  # which has one there
                    out = clattn.torch.attention(*given, scale=number)
                    self.assertNotEqual(torch.autograd.grad(out.sum(), number)[0].item(), 0)
                    continue
                with self.assertRaisesRegex(clattn.InvalidArgument, name):
                    clattn.torch.attention(*given, **{name: number})

    def test_transforms(self):
        query, key, value = self.three
        calls = {"grad": lambda: torch.func.grad(lambda x: clattn.attention(x, key, value).sum())(query),
                 "vmap": lambda: torch.func.vmap(lambda x: clattn.attention(x, key[0], value[0]))(query),
                 "jvp": lambda: torch.func.jvp(lambda x: clattn.attention(x, key, value), (query,), (query,))}
        for name, call in calls.items():
            with self.subTest(name), self.assertRaisesRegex(clattn.Error, "^query: "):
                call()

    def test_tensors_without_memory_of_their_own(self):
        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
                made.inner = inner
                return made

            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                return function(*[x.inner if isinstance(x, cls) else x for x in args], **(kwargs or {}))

        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            fake = torch.zeros(2, 4, 9, 16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            masked = torch.masked.masked_tensor(self.three[0], self.three[0] > 0)
            nested = torch.nested.nested_tensor([torch.zeros(4, 9, 16)] * 2)
        bare = torch.zeros(2, 4, 9, 16)
        bare.untyped_storage().resize_(0)
        for given in (Wrapper(self.three[0]), fake, masked, nested, torch.zeros(2, 4, 9, 16, device="meta"),
                      self.three[0].to_sparse(), torch.quantize_per_tensor(self.three[0], 0.1, 0, torch.qint8),
                      self.three[0].to(torch.complex64), bare):
            with self.subTest(type(given).__name__):
                self.refused("^query: ", given, *self.three[1:])

    def test_a_default_device_is_not_where_results_are(self):
        right = clattn.attention(*self.three)
        with torch.device("meta"):
            found = clattn.attention(*self.three, return_lse=True)[0]
        self.same(found, right)

    def test_what_autograd_has_saved_is_not_written_unseen(self):
        weight, out = torch.ones(2, 4, 9, 12, requires_grad=True), torch.ones(2, 4, 9, 12)
        loss = (weight * out).sum()
        clattn.attention(*self.three, out=out)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()
        with torch.inference_mode():
            written = torch.zeros(2, 4, 9, 12)
            clattn.attention(*self.three, out=written)
        self.same(written, out)


class OpenCL(Case):
    """Arrays of pyopencl."""

    def setUp(self):
        super().setUp()
        try:
            import pyopencl
            import pyopencl.array
            platforms = pyopencl.get_platforms()
        except (ImportError, RuntimeError) as error:
            self.skipTest(f"pyopencl: {error}")
        self.queue = pyopencl.CommandQueue(pyopencl.Context(platforms[0].get_devices()[:1]))
        self.package = pyopencl.array
        self.there = [self.package.to_device(self.queue, x) for x in self.three]

    def test_an_interface_that_is_not_whole(self):
        for wrong in ({"strides": (4,)}, {"strides": ()}, {"strides": (4,) * 5}, {"shape": (2, 4, 9, -16)}):
            self.refused("^query: an array interface of shape", Interface(self.three[0], **wrong), *self.three[1:])
        for missing in ("shape", "typestr"):
            given = Interface(self.three[0])
            del given.__array_interface__[missing]
            self.refused(f"^query: an array interface without {missing}", given, *self.three[1:])

    def test_a_context_is_one_however_often_it_is_copied(self):
        for copied in (copy.copy, copy.deepcopy):
            context = clattn.Context()
            other = copied(context)
            right = clattn.attention(*self.three, context=context)
            del context
            gc.collect()
            self.same(clattn.attention(*self.three, context=other), right)
            del other
            gc.collect()
        plan = clattn.Plan(self.three[0].shape, self.three[1].shape, head_dim_v=12, context=clattn.Context())
        self.same(copy.deepcopy(plan)(*self.three), plan(*self.three))
        with self.assertRaisesRegex(clattn.InvalidArgument, "cannot be pickled"):
            pickle.dumps(plan)

    def test_bytes_in_the_other_order(self):
        swapped = self.package.to_device(self.queue, self.three[0].astype(self.three[0].dtype.newbyteorder()))
        self.refused("^query: .*byte order", swapped, *self.there[1:])

    def test_elements_begin_between_others(self):
        for bytes_before in (2, 3):
            wide = self.package.empty(self.queue, (self.three[0].size + 1,), np.float32)
            shifted = self.package.Array(self.queue, self.three[0].shape, np.float32, data=wide.base_data,
                                         offset=bytes_before)
            self.refused("^query: .*multiple", shifted, *self.there[1:])

    def test_numbers(self):
        self.refused("^seed ", *self.there, dropout=0.5, seed=-1)
        self.refused("^slopes: ", *self.there, alignment="top-left",
                     slopes=self.package.to_device(self.queue, np.ones(4, np.complex64)))


if __name__ == "__main__":
    unittest.main()
