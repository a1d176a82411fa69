"""clattn as a plug-in execution provider of ONNX Runtime: attention on the device that CLATTN_DEVICE names.

    import onnxruntime, onnxruntime_ep_clattn as clattn
    onnxruntime.register_execution_provider_library("clattn", clattn.library_path())
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices([d for d in onnxruntime.get_ep_devices() if d.ep_name == clattn.ep_name()], {})
    session = onnxruntime.InferenceSession("model.onnx", options)
"""
import ctypes
import pathlib

__all__ = ["ep_name", "library_path", "report"]


def library_path():
    """The absolute path of the provider's library, a str, for register_execution_provider_library."""
    return str(pathlib.Path(__file__).resolve().parent / "libclattn_ort.so")


def ep_name():
    """What the provider calls itself, whatever name the library was registered by."""
    return "ClattnExecutionProvider"


def report():
    """What was counted in this process, as {what: count}: nodes claimed, nodes computed, plans made, and each reason
    for which a node of attention was left to another provider, with how often ONNX Runtime was told so."""
    function = ctypes.CDLL(library_path()).clattn_ort_report
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    text = ctypes.create_string_buffer(function(None, 0) + 256)
    function(text, len(text))
    lines = (line.partition(" ") for line in text.value.decode().splitlines())
    return {what: int(count) for count, _, what in lines}
