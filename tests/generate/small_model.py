"""A GGUF file of a very small model, made of numbers that are the same everywhere, and where its lengths and counts
stand, for tests that damage them."""
import random
import struct

LAYERS, WIDTH, HEADS, KV_HEADS, DIM, INNER, CONTEXT, BASE, EPSILON = 2, 64, 4, 2, 32, 96, 512, 10000.0, 1e-5
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
U8, U32, I32, F32, BOOL, TEXT, ARRAY, U64 = 0, 4, 5, 6, 7, 8, 9, 10
NORMAL, CONTROL = 1, 3
GGML_F32, GGML_Q8_0 = 0, 8


def alphabet():
    """Each byte as a printable character."""
    kept = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = [byte for byte in range(256) if byte not in kept]
    return [chr(256 + others.index(byte)) if byte in others else chr(byte) for byte in range(256)]


MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"]
TOKENS = MARKS + alphabet() + [merge.replace(" ", "") for merge in MERGES]
VOCABULARY = len(TOKENS)


class Writer:
    """Bytes, and the places of the numbers in them that a reader must not believe."""

    def __init__(self):
        self.bytes, self.lengths, self.types = bytearray(), [], []

    def put(self, form, *values):
        self.bytes += struct.pack("<" + form, *values)

    def length(self, form, value):
        self.lengths.append((len(self.bytes), form))
        self.put(form, value)

    def type(self, value):
        self.types.append(len(self.bytes))
        self.put("I", value)

    def text(self, text):
        self.length("Q", len(text.encode()))
        self.bytes += text.encode()

    def field(self, name, kind, value, of=None):
        self.text(name)
        self.type(kind)
        if kind == ARRAY:
            self.type(of)
            self.length("Q", len(value))
        for item in value if kind == ARRAY else [value]:
            if (of if kind == ARRAY else kind) == TEXT:
                self.text(item)
            else:
                self.put({U8: "B", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q"}[of if kind == ARRAY else kind],
                         item)


def matrices():
    """(name, columns, rows, ggml's type, floats row by row), as a reader has them after it dequantised them."""
    draw = random.Random(7)
    shapes = [("token_embd.weight", WIDTH, VOCABULARY, GGML_Q8_0), ("output_norm.weight", WIDTH, 1, GGML_F32)]
    for layer in range(LAYERS):
        for name, columns, rows, kind in [
            ("attn_norm", WIDTH, 1, GGML_F32), ("attn_q", WIDTH, HEADS * DIM, GGML_F32),
            ("attn_k", WIDTH, KV_HEADS * DIM, GGML_F32), ("attn_v", WIDTH, KV_HEADS * DIM, GGML_Q8_0),
            ("attn_output", HEADS * DIM, WIDTH, GGML_F32), ("ffn_norm", WIDTH, 1, GGML_F32),
            ("ffn_gate", WIDTH, INNER, GGML_F32), ("ffn_up", WIDTH, INNER, GGML_F32),
            ("ffn_down", INNER, WIDTH, GGML_F32)]:
            shapes.append(("blk.%d.%s.weight" % (layer, name), columns, rows, kind))
    for name, columns, rows, kind in shapes:
        if rows == 1:
            values = [1 + draw.randint(-64, 64) / 256 for _ in range(columns)]
        else: # multiples of 1 / 512: q8_0 holds them exactly, by a scale that is a power of two
            values = [draw.randint(-127, 127) / 512 for _ in range(columns * rows)]
        yield name, columns, rows, kind, values


def encode(kind, values):
    if kind == GGML_F32:
        return struct.pack("<%df" % len(values), *values)
    blocks = [values[i:i + 32] for i in range(0, len(values), 32)]
    return b"".join(struct.pack("<e32b", 1 / 512, *[int(value * 512) for value in block]) for block in blocks)


def small_model():
    """(bytes, places of lengths as (offset, struct's letter), places of types, where the tensors begin)"""
    writer, data = Writer(), bytearray()
    tensors = list(matrices())
    fields = [("general.architecture", TEXT, "llama"), ("llama.block_count", U32, LAYERS),
              ("llama.context_length", U32, CONTEXT), ("llama.embedding_length", U32, WIDTH),
              ("llama.feed_forward_length", U32, INNER), ("llama.attention.head_count", U32, HEADS),
              ("llama.attention.head_count_kv", U32, KV_HEADS), ("llama.attention.key_length", U32, DIM),
              ("llama.attention.value_length", U32, DIM), ("llama.rope.dimension_count", U32, DIM),
              ("llama.rope.freq_base", F32, BASE), ("llama.attention.layer_norm_rms_epsilon", F32, EPSILON),
              ("tokenizer.ggml.model", TEXT, "gpt2"), ("tokenizer.ggml.pre", TEXT, "smollm"),
              ("tokenizer.ggml.tokens", ARRAY, TOKENS, TEXT),
              ("tokenizer.ggml.token_type", ARRAY, [CONTROL] * len(MARKS) + [NORMAL] * (VOCABULARY - len(MARKS)), I32),
              ("tokenizer.ggml.merges", ARRAY, MERGES, TEXT), ("tokenizer.ggml.eos_token_id", U32, 2),
              ("tokenizer.ggml.unknown_token_id", U32, 0)]
    writer.bytes += b"GGUF"
    writer.put("I", 3)
    writer.length("Q", len(tensors))
    writer.length("Q", len(fields))
    for field in fields:
        writer.field(*field)
    for name, columns, rows, kind, values in tensors:
        writer.text(name)
        writer.length("I", 1 if rows == 1 else 2)
        for extent in [columns] if rows == 1 else [columns, rows]:
            writer.length("Q", extent)
        writer.type(kind)
        writer.length("Q", len(data))
        data += encode(kind, values)
        data += b"\0" * (-len(data) % 32)
    writer.bytes += b"\0" * (-len(writer.bytes) % 32)
    return bytes(writer.bytes + data), writer.lengths, writer.types, len(writer.bytes)
