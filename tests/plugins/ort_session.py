"""What the tests of plugins/onnxruntime share: sessions with the provider and without, calls with arrays of any type,
and what was counted."""
import contextlib
import ctypes

import ml_dtypes
import numpy as np
import onnxruntime
import onnxruntime_ep_clattn

onnxruntime.register_execution_provider_library("clattn", onnxruntime_ep_clattn.library_path())
DEVICES = [device for device in onnxruntime.get_ep_devices() if device.ep_name == onnxruntime_ep_clattn.ep_name()]
# Types that NumPy lacks: the number that ONNX has for it, and the integers that have its bits.
FOREIGN_TYPES = {"bfloat16": (16, np.uint16), "float8_e4m3fn": (17, np.uint8)}


def session(model, provider=True, threads=2):
    """A session of a model's bytes or file: with the provider, or by ONNX Runtime's own of CPUs alone."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if provider:
        options.add_provider_for_devices(DEVICES, {})
        return onnxruntime.InferenceSession(model, options)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def value(array):
    """As ONNX Runtime's, which takes types that NumPy lacks by their bits only."""
    array = np.ascontiguousarray(array)
    if array.dtype.name in FOREIGN_TYPES:
        number, integers = FOREIGN_TYPES[array.dtype.name]
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(integers), number)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def array(ort_value):
    foreign = {"tensor(bfloat16)": ml_dtypes.bfloat16, "tensor(float8e4m3fn)": ml_dtypes.float8_e4m3fn}
    if ort_value.data_type() not in foreign:
        return ort_value.numpy()
    kind, shape = np.dtype(foreign[ort_value.data_type()]), ort_value.shape()
    data = ctypes.string_at(ort_value.data_ptr(), kind.itemsize * int(np.prod(shape)))
    return np.frombuffer(data, kind).reshape(shape)


def run(of, **inputs):
    """All outputs, as arrays, by their names."""
    binding = of.io_binding()
    kept = {name: value(given) for name, given in inputs.items()}
    for name, given in kept.items():
        binding.bind_ortvalue_input(name, given)
    for output in of.get_outputs():
        binding.bind_output(output.name)
    of.run_with_iobinding(binding)
    return {output.name: array(made) for output, made in zip(of.get_outputs(), binding.get_outputs())}


@contextlib.contextmanager
def counted():
    """A dictionary that has, behind the block, what was counted in it."""
    before, made = onnxruntime_ep_clattn.report(), {}
    yield made
    after = onnxruntime_ep_clattn.report()
    made.update({what: after[what] - before.get(what, 0) for what in after if after[what] != before.get(what, 0)})
