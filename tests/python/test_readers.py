"""The command's readers of .npy and .safetensors files beside NumPy's and the safetensors package's: 10,000 files, good
ones and such as were changed at random. What ours take the others must take, and see the same in it; what ours refuse
of what the others take is theirs alone: other types, trailing bytes, names and numbers that JSON does not have."""
import io
import json
import os
import random
import struct
import subprocess
import tempfile
import unittest

import numpy as np
import safetensors

COUNT = int(os.environ.get("CLATTN_TEST_FILES", "10000"))
PROGRAM = os.path.join(os.environ["CLATTN_TEST_PROGRAMS"], "tests/python/read_files")
SHAPES = (), (0,), (1,), (3,), (2, 3), (3, 0), (2, 3, 2), (1, 2, 3, 2), (2, 1, 1, 2, 3), (2,) * 7
ARRAYS = "<f4", "<f2", "<f8", "<i4", "<i8", "|u1", "|i1", "|b1", "V2", ">f4", "<u4", "<c8", "|S3", "<f4,<f4"
KINDS = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "|u1", "I8": "|i1", "BOOL": "|b1",
         "BF16": "<u2", "U16": "<u2", "U32": "<u4", "U64": "<u8", "I16": "<i2", "F8_E4M3": "|u1", "F8_E5M2": "|u1"}
NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "I32": "int32", "I64": "int64",
         "U32": "uint32", "U8": "uint8", "I8": "int8", "BOOL": "bool", "F8_E4M3": "e4m3", "F8_E5M2": "e5m2"}
NEVER_READ = "U16", "U64", "I16"  # ours takes a file that has them, and tells their shapes
TOKENS = (b"1e0", b"-1", b"1.0", b"01", b"+1", b"0x1", b"1_0", b"1L", b"9223372036854775808", b"4294967297", b"null",
          b"true", b"NaN", b'"a"', b"[]", b"{}", b"True", b"()", b"(1)", b"(1,)", b"'<f4'", b"\x01", b"\x00", b"\xff",
          b"\xc3\xa4", b"\xc0\x80", b"\xed\xa0\x80", b"\\u0000", b"\\ud800", b"\\n", b"\t", b"\n", b" ", b",", b":",
          b"//", b"#", b'"F32"', b'"dtype"', b'"shape"', b'"__metadata__":{"a":"b"},', b'"x":1,', b'{"x":{"x":1}}',
          b"'shape': (1,),")


def e4m3(code):
    """By its definition: a sign, four bits of exponent, three of mantissa; only all ones are no number."""
    exponent, mantissa = code >> 3 & 15, code & 7
    size = 2.0**(exponent - 10) * (8 + mantissa) if exponent else 2.0**-9 * mantissa
    return (-1)**(code >> 7) * (float("nan") if code & 127 == 127 else size)


E4M3 = np.array([e4m3(code) for code in range(256)])


def npy(chance):
    shape, descr = chance.choice(SHAPES), chance.choice(ARRAYS)
    items = np.frombuffer(chance.randbytes(int(np.prod(shape)) * np.dtype(descr).itemsize), descr).reshape(shape)
    items = np.asarray(items != 0 if descr == "|b1" else items, order=chance.choice("CF"))
    file = io.BytesIO()
    np.lib.format.write_array(file, items, version=chance.choice(((1, 0), (2, 0), None)))
    return file.getvalue()


def safe(chance):
    header, data = {}, b""
    for number in range(chance.randrange(4)):
        shape, kind = chance.choice(SHAPES), chance.choice(list(KINDS))
        size = int(np.prod(shape)) * np.dtype(KINDS[kind]).itemsize
        items = chance.randbytes(size) if kind != "BOOL" else bytes(chance.randrange(2) for _ in range(size))
        header[chance.choice(("t", "a.b", "\u00e4", "x y")) + str(number)] = {
            "dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += items
    if chance.random() < 0.3:
        header["__metadata__"] = {"format": "pt"}
    text = json.dumps(header, ensure_ascii=chance.random() < 0.5,
                      separators=chance.choice(((",", ":"), (", ", ": ")))).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def lengths(file, size):
    """The header's text, and the same file with another text in its place, whose length is right."""
    wide = "<Q" if file[:1] != b"\x93" else "<H" if file[6] == 1 else "<I"
    at = 0 if file[:1] != b"\x93" else 8
    start = at + struct.calcsize(wide)
    end = start + struct.unpack_from(wide, file, at)[0]
    return (file[start:end],
            lambda text: file[:at] + struct.pack(wide, len(text) % 65536) + text + file[end:] + b"\0" * size)


def change(chance, file):
    """None of its bytes; some bytes; or the text of the header, the rest being right."""
    if chance.random() < 0.15:
        return file
    if chance.random() < 0.2:
        changed = bytearray(file)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed[:chance.randrange(len(changed) + 1)] if chance.random() < 0.3 else changed)
    text, put = lengths(file, chance.choice((0, 0, 0, 0, 1, 8)))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(text) + 1)
        to = min(len(text), at + chance.choice((0, 0, 1, 1, 2, 8)))
        other = chance.choice((chance.choice(TOKENS), bytes([chance.choice(b'0123456789,:[](){}"\' ')]), b"",
                               text[at:to] * 2))
        text = text[:at] + other + text[to:]
    return put(text)


def seen_npy(file):
    items = np.load(io.BytesIO(file), allow_pickle=False, max_header_size=10000)
    if items.dtype == np.dtype("V2"):
        bits = np.frombuffer(items.tobytes(), "<u2").astype("<u4") << 16
        return [("-", "bfloat16", items.shape, bits.view("<f4"))]
    return [("-", items.dtype.name, items.shape, np.ascontiguousarray(items).ravel())]


def seen_safe(file):
    tensors = []
    for name, entry in safetensors.deserialize(file):
        kind = entry["dtype"]
        items = np.frombuffer(entry["data"], KINDS[kind])
        if kind == "BF16":
            items = (items.astype("<u4") << 16).view("<f4")
        elif kind == "F8_E5M2":
            items = (items.astype("<u2") << 8).view("<f2")
        elif kind == "F8_E4M3":
            items = E4M3[items]
        elif kind in NEVER_READ:
            items = items[:0]
        tensors.append((name.encode().hex() or "-", NAMES.get(kind, kind), tuple(entry["shape"]), items))
    return sorted(tensors, key=lambda tensor: tensor[0])


def other_reader(file, see):
    """None: refused, by an exception of whatever kind; Rust's panic is none of Exception."""
    try:
        return see(file)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # pylint: disable=broad-except
        return None


def parsed(line):
    what, _, elements = line.partition(";")
    name, kind, extents = what.split(" ", 2)
    shape = tuple(int(extent) for extent in extents.split(",")[:-1])
    return name, kind, shape, [float.fromhex(e) for e in elements.split()]


def same(ours, theirs):
    return len(ours) == len(theirs) and all(
        a[:3] == tuple(b[:3]) and np.array_equal(a[3], [float(element) for element in b[3]], equal_nan=True)
        for a, b in zip(ours, theirs))


@unittest.skipUnless(os.path.exists(PROGRAM), "no tests/python/read_files: make check TESTS= in the build folder")
class Readers(unittest.TestCase):
    def compare(self, ending, make, see):
        chance = random.Random(20261124)
        files = [change(chance, make(chance)) for _ in range(COUNT // 2)]
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(number) + ending) for number in range(len(files))]
            for path, file in zip(paths, files):
                with open(path, "wb") as out:
                    out.write(file)
            done = subprocess.run([PROGRAM], input="\n".join(paths) + "\n", capture_output=True, text=True, check=True)
        lines = iter(done.stdout.splitlines())
        counts = {"both take": 0, "both refuse": 0, "ours refuses": 0}
        for file in files:
            verdict, theirs = next(lines).split(), other_reader(file, see)
            if verdict[0] == "taken":
                ours = sorted((parsed(next(lines)) for _ in range(int(verdict[1]))), key=lambda tensor: tensor[0])
                self.assertIsNotNone(theirs, f"taken by ours alone: {file!r}")
                self.assertTrue(same(ours, theirs), f"{file!r}: {ours} is not {theirs}")
                counts["both take"] += 1
            else:
                counts["both refuse" if theirs is None else "ours refuses"] += 1
        print(f"{ending}: {len(files)} files: {counts}")
        self.assertGreater(min(counts["both take"], counts["both refuse"]), len(files) // 20)  # enough of either kind

    def test_npy(self):
        self.compare(".npy", npy, seen_npy)

    def test_safetensors(self):
        self.compare(".safetensors", safe, seen_safe)


if __name__ == "__main__":
    unittest.main()
