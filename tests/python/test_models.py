"""Real models, unchanged but for one line: a sentence encoder and a decoder compute with clattn what they compute in
float64, as nearly as they do in float32 with their own attention, and every attention call is served.

CLATTN_MINILM is the folder of all-MiniLM-L6-v2, CLATTN_SMOLLM the file of SmolLM2-135M-Instruct; CLATTN_SOURCE the
tree."""
import importlib.util
import json
import os
import unittest

import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

import clattn.torch
import clattn.transformers  # noqa: F401  registers "clattn"

MINILM, SMOLLM = os.environ.get("CLATTN_MINILM"), os.environ.get("CLATTN_SMOLLM")
DATA = os.path.join(os.environ["CLATTN_SOURCE"], "tests", "generate")


def has(package):
    return importlib.util.find_spec(package) is not None


def counts():
    return clattn.torch.report(clear=True)


class Model(unittest.TestCase):
    def setUp(self):
        clattn.torch.disable()
        counts()

    tearDown = setUp

    def near(self, ours, right, own):
        """Twice as far from float64 as the model's own attention in float32, at most."""
        own_error, error = (own - right).abs().max().item(), (ours - right).abs().max().item()
        print(f"{self.id()}: {error:.2g} from float64, its own attention {own_error:.2g}, largest number "
              f"{right.abs().max().item():.3g}")
        self.assertGreater(right.abs().max().item(), 0.1)
        self.assertLessEqual(error, 2 * own_error)


@unittest.skipUnless(MINILM, "no model all-MiniLM-L6-v2")
class Encoder(Model):
    LAYERS = 6

    def sentences(self):
        with open(os.path.join(DATA, "alice.txt"), encoding="utf8") as text:
            return [sentence for sentence in text.read().split(".") if sentence.strip()][:8]

    def hidden(self, implementation, dtype):
        """The hidden states of all tokens but padding."""
        given = AutoTokenizer.from_pretrained(MINILM)(self.sentences(), padding=True, truncation=True,
                                                      return_tensors="pt")
        model = AutoModel.from_pretrained(MINILM, attn_implementation=implementation, dtype=dtype)
        with torch.no_grad():
            return model(**given).last_hidden_state[given["attention_mask"].bool()].double()

    def test_transformers(self):
        right, own = (self.hidden("eager", dtype) for dtype in (torch.float64, torch.float32))
        self.near(self.hidden("clattn", torch.float32), right, own)
        self.assertEqual(counts(), {"served": {"attention": self.LAYERS}, "declined": {}})

    def test_enable(self):
        right, own = (self.hidden("sdpa", dtype) for dtype in (torch.float64, torch.float32))
        clattn.torch.enable()
        self.near(self.hidden("sdpa", torch.float32), right, own)
        self.assertEqual(counts(), {"served": {"forward": self.LAYERS}, "declined": {}})

    @unittest.skipUnless(has("sentence_transformers"), "no sentence-transformers")
    def test_sentence_transformers(self):
        from sentence_transformers import SentenceTransformer

        def encode(implementation, dtype):
            model = SentenceTransformer(MINILM, device="cpu", model_kwargs={"attn_implementation": implementation,
                                                                            "dtype": dtype})
            return model.encode(self.sentences(), convert_to_tensor=True).double()

        right, own = (encode("eager", dtype) for dtype in (torch.float64, torch.float32))
        self.near(encode("clattn", torch.float32), right, own)
        self.assertEqual(counts(), {"served": {"attention": self.LAYERS}, "declined": {}})


@unittest.skipUnless(SMOLLM, "no model SmolLM2-135M-Instruct")
@unittest.skipUnless(has("gguf") and has("accelerate"), "no gguf and accelerate, by which transformers reads the model")
class Decoder(Model):
    LAYERS, STEPS = 30, 16

    @classmethod
    def setUpClass(cls):
        folder, name = os.path.split(SMOLLM)
        cls.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
        with open(os.path.join(DATA, "expected.json"), encoding="utf8") as text:
            cls.case = json.load(text)["cases"][0]

    def logits(self, implementation, dtype):
        self.model.set_attn_implementation(implementation)
        with torch.no_grad():
            return self.model.to(dtype)(torch.tensor([self.case["prompt_tokens"]])).logits.double()

    def test_logits(self):
        ours = self.logits("clattn", torch.float32)
        self.assertEqual(counts(), {"served": {"attention": self.LAYERS}, "declined": {}})
        own = self.logits("eager", torch.float32)
        right = self.logits("eager", torch.float64)
        self.model.to(torch.float32)  # exactly what it was
        self.near(ours, right, own)

    def test_tokens(self):
        """The likeliest tokens are those that the model's own attention finds; one query row a step, on a cache."""
        self.model.set_attn_implementation("clattn")
        prompt = torch.tensor([self.case["prompt_tokens"]])
        found = self.model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=self.STEPS,
                                    do_sample=False)
        self.assertEqual(found[0, prompt.shape[1]:].tolist(), self.case["tokens"][:self.STEPS])
        self.assertEqual(counts(), {"served": {"attention": self.STEPS * self.LAYERS}, "declined": {}})


if __name__ == "__main__":
    unittest.main()
