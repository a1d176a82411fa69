"""How long calls take beside ONNX Runtime's provider of CPUs, in turns: least, median, and the mean of processor time.
Tests nothing. An encoder of MiniLM's shape at 1 x 32 and 4 x 512 tokens, and GroupQueryAttention of one token at 4,096
keys, 32 heads of 128 columns, 8 of keys, in a cache that stays in place."""
import os
import sys
import tempfile
import time
import warnings

sys.path.append(os.environ["CLATTN_ORT_SITE"])

# pylint: disable=wrong-import-position
import numpy as np

import ort_contributed
import ort_models
import ort_session


def measure(name, calls, seconds):
    """calls: of the provider, and of the other."""
    times, processors = ([], []), [0.0, 0.0]
    for call in calls:
        call()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times[0]) < 5:
        for n, call in enumerate(calls):
            processor, begin = time.process_time(), time.perf_counter()
            call()
            times[n].append(time.perf_counter() - begin)
            processors[n] += time.process_time() - processor
    least, median = (of(times[1]) / of(times[0]) for of in (min, np.median))
    print(f"{name}: the other takes {least:.2f} times as long (least), {median:.2f} (median), "
          f"{processors[1] / processors[0]:.2f} (processors); least {min(times[0]) * 1e3:.3f} ms, of {len(times[0])}")


def encoder():
    ort_models.LAYERS = 6
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = os.path.join(folder, "model.onnx")
        ort_models.Models().by_export(23)(ort_models.Encoder(), path)
        sessions = [ort_session.session(path, provider) for provider in (True, False)]
    for batch, length, seconds in ((1, 32, 6), (4, 512, 30)):
        ids, mask = ort_models.tokens(batch, length)
        feed = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
        measure(f"encoder, {batch} x {length}", [lambda s=s: s.run(None, feed) for s in sessions], seconds)


def one_token(keys, heads=32, kv_heads=8, columns=128):
    numbers = ort_contributed.numbers
    inputs = {"query": numbers(1, 1, heads * columns), "key": numbers(1, 1, kv_heads * columns),
              "value": numbers(1, 1, kv_heads * columns),
              **{name: numbers(1, kv_heads, keys, columns) for name in ("past_key", "past_value")},
              "seqlens_k": np.array([keys - 1], np.int32), "total_sequence_length": np.array([keys], np.int32)}
    of = ort_contributed.model("GroupQueryAttention", inputs, ["output", "present_key", "present_value"],
                               num_heads=heads, kv_num_heads=kv_heads)
    calls = []
    for provider in (True, False):
        session = ort_session.session(of, provider)
        binding, kept = session.io_binding(), {name: ort_session.value(array) for name, array in inputs.items()}
        for name, value in kept.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output("output")
        for what in ("key", "value"):
            binding.bind_ortvalue_output(f"present_{what}", kept[f"past_{what}"])
        calls.append(lambda session=session, binding=binding, kept=kept: session.run_with_iobinding(binding))
    measure(f"one token, {keys} keys", calls, 6)


one_token(4096)
encoder()
