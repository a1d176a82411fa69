"""Tiny models of transformers, of random weights: with attn_implementation="clattn" their outputs and gradients differ
from a float64 run by as much as float32 does, they write the same tokens from their caches, and every attention call is
served; with clattn.torch.enable() every one that PyTorch hands to its kernel is. CLATTN_TEST_LONG: all of that for all
of them, not for those alone that differ most."""
import os
import unittest
from unittest import mock

import torch
import transformers

import clattn.torch
import clattn.transformers  # noqa: F401  registers "clattn"
from calls import Calls

LAYERS = 2
SMALL = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS,
         "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2, "initializer_range": 0.3}  # so that softmax has something to choose
GROUPED = {**SMALL, "num_key_value_heads": 2}

LATENT = "DeepSeek V3, latent keys and values"  # values are narrower than keys: PyTorch hands these to no kernel
MODELS = {
    "BERT": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
    "Llama": lambda: transformers.LlamaModel(transformers.LlamaConfig(**GROUPED)),
    "Mistral, window 4": lambda: transformers.MistralModel(transformers.MistralConfig(**GROUPED, sliding_window=4)),
    "Gemma 2, softcap, window 4": lambda: transformers.Gemma2Model(transformers.Gemma2Config(
        **GROUPED, head_dim=8, sliding_window=4, attn_logit_softcapping=2.0)),
    "GPT-OSS, sinks, window 4": lambda: transformers.GptOssModel(transformers.GptOssConfig(
        **GROUPED, head_dim=8, sliding_window=4, num_local_experts=2, num_experts_per_tok=1)),
    "ModernBERT": lambda: transformers.ModernBertModel(transformers.ModernBertConfig(**SMALL, local_attention=8)),
    "T5": lambda: transformers.T5Model(transformers.T5Config(
        vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=LAYERS, num_heads=4, decoder_start_token_id=0)),
    "Whisper": lambda: transformers.WhisperModel(transformers.WhisperConfig(
        vocab_size=60, d_model=32, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=12,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)),
    LATENT: lambda: transformers.DeepseekV3Model(transformers.DeepseekV3Config(
        **{**SMALL, "num_key_value_heads": 4}, q_lora_rank=16, kv_lora_rank=12, qk_rope_head_dim=8, qk_nope_head_dim=8,
        v_head_dim=12, n_routed_experts=4, num_experts_per_tok=1, n_group=1, topk_group=1, n_shared_experts=1,
        moe_intermediate_size=16, first_k_dense_replace=1)),
    "BART": lambda: transformers.BartModel(transformers.BartConfig(
        vocab_size=60, d_model=32, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, init_std=0.3,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None)),
    "GPT-2": lambda: transformers.GPT2Model(transformers.GPT2Config(
        vocab_size=60, n_embd=32, n_layer=LAYERS, n_head=4, n_positions=64, initializer_range=0.3, bos_token_id=1,
        eos_token_id=2, pad_token_id=0)),
    "ViT": lambda: transformers.ViTModel(transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=48, image_size=16,
        patch_size=4, initializer_range=0.3)),
}
LONG = bool(os.environ.get("CLATTN_TEST_LONG"))
SHORTLY = LATENT, "BART", "GPT-2", "ViT"  # of which the short form asks the outputs only


def inputs_of(name):
    """Eleven tokens; the second sequence has nine and padding, which no window of four sees nothing but."""
    torch.manual_seed(3)
    tokens, seen = torch.randint(3, 60, (2, 11)), torch.ones(2, 11, dtype=torch.long)
    if name == "Whisper":
        return {"input_features": torch.randn(2, 8, 24), "decoder_input_ids": tokens}
    if name == "ViT":
        return {"pixel_values": torch.randn(2, 3, 16, 16)}
    seen[1, 9:] = 0
    given = {"input_ids": tokens, "attention_mask": seen}
    return {**given, "decoder_input_ids": tokens[:, :5]} if name in ("T5", "BART") else given


# Models with a head that writes.
WRITERS = {name: lambda make=MODELS[name], head=head: getattr(transformers, head)(make().config) for name, head in (
    ("Llama", "LlamaForCausalLM"), ("Mistral, window 4", "MistralForCausalLM"),
    ("Gemma 2, softcap, window 4", "Gemma2ForCausalLM"), ("GPT-OSS, sinks, window 4", "GptOssForCausalLM"),
    ("T5", "T5ForConditionalGeneration"), ("Whisper", "WhisperForConditionalGeneration"),
    (LATENT, "DeepseekV3ForCausalLM"), ("BART", "BartForConditionalGeneration"),
    ("GPT-2", "GPT2LMHeadModel"))}
STEPS = 6
ENCODERS_AND_DECODERS = ("T5", "Whisper", "BART")


def made(name, models=MODELS):
    torch.manual_seed(7)
    model = models[name]()
    for part in model.modules():
        if hasattr(part, "sinks"):  # as made they are 0 or undefined
            torch.nn.init.normal_(part.sinks)
    return model


def prepared(model, implementation, dtype):
    model.set_attn_implementation(implementation)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the other ones have no float64
    return model.to(dtype).eval()


def run(model, implementation, dtype, inputs):
    given = {key: value.to(dtype) if value.is_floating_point() else value for key, value in inputs.items()}
    return prepared(model, implementation, dtype)(**given).last_hidden_state


def gradients(model, implementation, dtype, inputs, seen):
    """Gradients of all parameters, one after the other, of a loss that reads what is no padding."""
    model.zero_grad()
    out = run(model, implementation, dtype, inputs)[seen]
    (out * torch.cos(torch.arange(out.numel(), dtype=torch.float64)).reshape(out.shape).to(dtype)).sum().backward()
    return torch.cat([x.grad.double().flatten() for x in model.parameters() if x.grad is not None])


def seen_of(name, inputs, shape):
    """What a row of padding holds is nobody's business."""
    if "attention_mask" in inputs and name not in ("T5", "BART"):
        return inputs["attention_mask"].bool()
    return torch.ones(shape, dtype=torch.bool)


def calls_of(name):
    """Attention calls of one pass."""
    return (3 if name in ENCODERS_AND_DECODERS else 1) * LAYERS


class Models(unittest.TestCase):
    """One test of each kind for each, made below."""

    def setUp(self):
        clattn.torch.disable()
        clattn.torch.report(clear=True)

    tearDown = setUp

    def near(self, ours, right, own):
        """Twice as far from float64 as the model's own attention, at most, and what the last bits are."""
        own_error, error = ((x - right).abs().max().item() for x in (own, ours))
        self.assertLessEqual(error, 2 * own_error + 1e-6 * right.abs().max().item())

    def check(self, name):
        model, inputs = made(name), inputs_of(name)
        with torch.no_grad():
            right, eager = (run(model, "eager", dtype, inputs).double() for dtype in (torch.float64, torch.float32))
            ours = run(model, "clattn", torch.float32, inputs).double()
        report = clattn.torch.report(clear=True)
        self.assertEqual(report, {"served": {"attention": calls_of(name)}, "declined": {}})
        seen = seen_of(name, inputs, right.shape[:2])
        self.near(ours[seen], right[seen], eager[seen])
        self.assertGreater((right[0] - right[1]).abs().max().item(), 1e-3)  # it computes something

    def check_gradients(self, name):
        model, inputs = made(name), inputs_of(name)
        seen = seen_of(name, inputs, run(model, "eager", torch.float32, inputs).shape[:2])
        right, eager = (gradients(model, "eager", dtype, inputs, seen) for dtype in (torch.float64, torch.float32))
        ours = gradients(model, "clattn", torch.float32, inputs, seen)
        report = clattn.torch.report(clear=True)
        calls = calls_of(name)
        self.assertEqual(report, {"served": {"attention": calls, "attention, backward": calls}, "declined": {}})
        self.near(ours, right, eager)

    def check_tokens(self, name):
        """One row a step, on caches, of which those of windows hold no more than the window. In float32: the model's
        own attention makes NaNs in float64 of rows that see nothing but padding."""
        model, inputs = made(name, WRITERS), inputs_of(name)
        inputs = {key: value for key, value in inputs.items() if not key.startswith("decoder")}
        if "attention_mask" in inputs:
            inputs = {key: value.flip(1) for key, value in inputs.items()}  # padding on the left

        def written(implementation, dtype):
            given = {key: value.to(dtype) if value.is_floating_point() else value for key, value in inputs.items()}
            return prepared(model, implementation, dtype).generate(**given, max_new_tokens=STEPS, min_new_tokens=STEPS,
                                                                   do_sample=False).tolist()

        right, ours = (written(implementation, torch.float32) for implementation in ("eager", "clattn"))
        report = clattn.torch.report(clear=True)
        calls = LAYERS * (1 + 2 * STEPS if name in ENCODERS_AND_DECODERS else STEPS)
        self.assertEqual(report, {"served": {"attention": calls}, "declined": {}})
        self.assertEqual(ours, right)

    def check_enabled(self, name):
        model, inputs = made(name), inputs_of(name)
        try:
            model.set_attn_implementation("sdpa")
        except ValueError:
            self.skipTest(f"transformers computes {name} without scaled_dot_product_attention")
        with torch.no_grad():
            right, own = (run(model, "sdpa", dtype, inputs).double() for dtype in (torch.float64, torch.float32))
            with Calls() as calls:
                run(model, "sdpa", torch.float32, inputs)
            clattn.torch.enable()
            ours = run(model, "sdpa", torch.float32, inputs).double()
        self.assertEqual(clattn.torch.report(clear=True), {"served": calls.served, "declined": {}})
        self.assertEqual(calls.served, {} if name == LATENT else {"forward": calls_of(name)})
        seen = seen_of(name, inputs, right.shape[:2])
        self.near(ours[seen], right[seen], own[seen])

    def test_grouped_heads_are_not_repeated_and_masks_stay_bool(self):
        model, inputs = made("Llama"), inputs_of("Llama")
        with torch.no_grad(), mock.patch.object(clattn.torch, "attention", wraps=clattn.torch.attention) as attention:
            run(model, "clattn", torch.float32, inputs)
        self.assertEqual(attention.call_count, LAYERS)
        for given in attention.call_args_list:
            query, key, value = given.args
            self.assertEqual((query.shape[1], key.shape[1], value.shape[1]), (4, 2, 2))
            self.assertEqual((given.kwargs["mask"].dtype, given.kwargs["bias"]), (torch.bool, None))

    def test_continuous_batching(self):
        """transformers takes "sdpa" there, and no implementation of another name but FlashAttention's."""
        if not hasattr(transformers.LlamaForCausalLM, "generate_batch"):
            self.skipTest(f"transformers {transformers.__version__}: has no continuous batching")
        model = prepared(made("Llama", WRITERS), "sdpa", torch.float32)
        said = transformers.GenerationConfig(max_new_tokens=STEPS, do_sample=False, eos_token_id=-1, pad_token_id=0)
        prompts = [[3, 4, 5, 6, 7], [9, 8, 7], list(range(20, 28))]

        def written():
            done = model.generate_batch(prompts, generation_config=said, progress_bar=False)
            return sorted((request.prompt_ids, request.generated_tokens) for request in done.values())

        right = written()
        self.assertEqual(clattn.torch.report(clear=True)["served"], {})
        clattn.torch.enable()
        ours, report = written(), clattn.torch.report(clear=True)
        self.assertEqual(ours, right)
        self.assertEqual([len(tokens) for _, tokens in ours], [STEPS] * len(prompts))
        self.assertGreaterEqual(report["served"]["forward"], LAYERS * STEPS)
        self.assertEqual(report["declined"], {})

    def test_sinks_and_their_gradients(self):
        """By the adapter itself, without a window; the mask hides all keys from a row, which its sink sees alone."""
        torch.manual_seed(5)
        three = [torch.randn(2, heads, 7, 8, dtype=torch.float64) for heads in (4, 2, 2)]
        seen, dout = torch.rand(2, 1, 7, 7) < 0.6, torch.randn(2, 7, 4, 8)
        seen[1, :, 3] = False
        sinks = torch.tensor([-2.0, 0.5, 1.0, 30.0], requires_grad=True)
        out, _ = clattn.transformers.attention_forward(torch.nn.Module(), *[x.float() for x in three], seen,
                                                       scaling=0.3, s_aux=sinks)
        ours = torch.autograd.grad(out, sinks, dout)[0]
        query, key, value = (x.repeat_interleave(4 // x.shape[1], 1) for x in three)
        scores = (0.3 * query @ key.mT).masked_fill(~seen, -torch.inf)
        logits = torch.cat([scores, sinks.double().reshape(1, 4, 1, 1).expand(2, 4, 7, 1)], -1)
        right = (logits.softmax(-1)[..., :-1] @ value).transpose(1, 2)
        self.assertLessEqual((out - right).abs().max(), 1e-6)
        self.assertEqual(out[1, 3].abs().max(), 0)
        exact = torch.autograd.grad(right, sinks, dout.double())[0]
        self.assertLessEqual((ours - exact).abs().max(), 1e-5)
        self.assertGreater(exact.abs().min(), 0)

    def test_dropout_with_sinks_is_refused(self):
        three = [torch.randn(1, 2, 3, 8) for _ in range(3)]
        with self.assertRaisesRegex(clattn.Unsupported, "no softcap and no sinks"):
            clattn.transformers.attention_forward(torch.nn.Module(), *three, None, dropout=0.1, s_aux=torch.zeros(2))

    def test_dropout_is_declined_as_the_readme_says(self):
        model, inputs = made("BERT"), inputs_of("BERT")
        model.set_attn_implementation("clattn")
        model.train()(**inputs)
        report = clattn.torch.report(clear=True)
        self.assertEqual((report["served"], list(report["declined"].values())), ({}, [LAYERS]))
        with open(os.path.join(os.environ["CLATTN_SOURCE"], "README.md"), encoding="utf-8") as readme:
            self.assertIn(next(iter(report["declined"])).partition(":")[0], readme.read())


for _name in MODELS:
    for _kind, _check in (("", Models.check), ("_gradients", Models.check_gradients),
                          ("_enabled", Models.check_enabled),
                          ("_tokens", Models.check_tokens)):
        if (_check is Models.check or LONG or _name not in SHORTLY) and (
                _check is not Models.check_tokens or _name in WRITERS):
            setattr(Models, "test_" + _name.split(",")[0].replace(" ", "_").replace("-", "_").lower() + _kind,
                    lambda self, check=_check, name=_name: check(self, name))


if __name__ == "__main__":
    unittest.main()
