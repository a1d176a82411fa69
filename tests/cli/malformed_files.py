"""Malformed .npy and .safetensors files, and shapes that do not fit each other: the first cases of
malformed, which imports this."""
import json
import os
import struct
import tempfile

FOLDER = tempfile.mkdtemp(prefix="clattn-malformed-")
cases = []  # (label, arguments, words that the message must have, environment)


def case(label, arguments, *words, env=None):
    cases.append((label, arguments, words, env or {}))


def save(name, data):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(data)
    return name


# ---- .npy ----


def npy(header, data=b"", version=(1, 0), magic=b"\x93NUMPY", length=None):
    header = header.encode("latin1") if isinstance(header, str) else header
    size = len(header) if length is None else length
    return magic + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", size) + header + data


def dictionary(descr="'<f4'", order="False", shape="(2, 3)"):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n" % (descr, order, shape)


def array(shape, descr="<f4", item=b"\0\0\0\0", data=None):
    count = 1
    for extent in shape:
        count *= extent
    text = "(" + "".join("%d, " % extent for extent in shape) + ")"
    return npy(dictionary("'%s'" % descr, shape=text), item * count if data is None else data)


def npy_case(label, data, *words):
    """A bad file in the place of the queries; the keys and values are good."""
    name = save("npy-%03d.npy" % len(cases), data)
    case("npy: " + label, ["run", "--q", name, "--k", "good.npy", "--v", "good.npy"], name, *words)


save("good.npy", array((1, 2, 3, 4)))
HEAD, DATA = dictionary(), b"\0" * 24

npy_case("empty file", b"", "too short")
npy_case("only magic", b"\x93NUMPY", "too short")
npy_case("text", b"hello, this is a text file\n", "is text")
npy_case("zip (npz)", b"PK\x03\x04" + b"\0" * 60, "zip archive")
npy_case("magic off by a byte", npy(HEAD, DATA, magic=b"\x93NUMPX"), "magic")
for version in (0, 0), (4, 0), (1, 1), (2, 1), (3, 7), (255, 255), (0, 1):
    npy_case("version %d.%d" % version, npy(HEAD, DATA, version), "version")
npy_case("header longer than the limit", npy(HEAD + " " * 10000, DATA), "10000")
npy_case("header length 65535", npy(HEAD, DATA, length=65535), "65535")
npy_case("header length 4 GiB", npy(HEAD, DATA, (2, 0), length=0xffffffff), "4294967295")
npy_case("header beyond the file", npy(HEAD, b"", length=9999), "truncated")
npy_case("header length one too long", npy(HEAD, b"", length=len(HEAD) + 1), "truncated")
npy_case("header length 0", npy("", DATA, length=0), "header")
for cut in range(2, len(HEAD) - 2, 4):
    npy_case("header cut at %d" % cut, npy(HEAD[:cut], DATA), "header")
for descr in ("'>f4'", "'<f3'", "'<f16'", "'<c8'", "'<i2'", "'<i1x'", "'<u2'", "'|O'", "'O'", "'|S4'", "'<U4'",
              "'<M8[ns]'", "'|V4'", "'f4'", "''", "'<f4 '", "'=f4'", "'>i8'", "'|f4'"):
    npy_case("descr " + descr, npy(dictionary(descr), DATA), "descr")
for descr in ("[('a', '<f4')]", "None", "4", "<f4", "u'<f4'", "'\\x3cf4'", "'" + "f" * 40 + "'",
              "('<f4', (2,))"):
    npy_case("descr " + descr[:16], npy(dictionary(descr), DATA), "header")
for order in ("false", "0", "None", "", "'False'", "Fals", "True False"):
    npy_case("fortran_order " + order, npy(dictionary(order=order), DATA), "header")
for shape in ("2", "[2, 3]", "(2 3)", "(6)", "(2, -3)", "(2.0, 3)", "(2, 3", "2, 3)", "(,)", "(2,, 3)",
              "(2, 3L)", "None", "(0x2, 3)", "(2, (3,))", "('2', 3)", "(99999999999999999999999, 1)",
              "(1, 1, 1, 1, 1, 1, 1, 2, 3)", "()x"):
    npy_case("shape " + shape, npy(dictionary(shape=shape), DATA), "header")
for shape in ("(4611686018427387904, 4)", "(2147483648, 2147483648, 2147483648)",
              "(0, 9223372036854775807, 9)", "(3037000500, 3037000500)"):
    npy_case("shape overflows " + shape, npy(dictionary(shape=shape), DATA), "62 bits")
for shape in ("(1000000000000, 3)", "(2, 4)", "(2, 2)", "(7,)", "()", "(0,)"):
    npy_case("shape is not the data: " + shape, npy(dictionary(shape=shape), DATA), "bytes of data")
npy_case("data one byte short", npy(HEAD, DATA[:-1]), "bytes of data")
npy_case("data one byte long", npy(HEAD, DATA + b"\0"), "bytes of data")
npy_case("no data", npy(HEAD), "bytes of data")
npy_case("two arrays in a file", npy(HEAD, DATA) * 2, "bytes of data")
for header in ("{'descr': '<f4', 'fortran_order': False}\n", "{'descr': '<f4', 'shape': (2, 3)}\n",
               "{'fortran_order': False, 'shape': (2, 3)}\n", "{}\n", "{'descr': '<f4', 'descr': '<f4', "
               "'fortran_order': False, 'shape': (2, 3)}\n", "{'descr': '<f4', 'fortran_order': False, "
               "'shape': (2, 3), 'x': 1}\n", "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}\n",
               "{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3)}\n", "[1, 2]\n", "\n", HEAD + "x",
               HEAD.replace("'descr'", "descr"), HEAD.replace("{", "{{"), HEAD.replace("}", "]"),
               HEAD.replace("'descr'", "'" + "d" * 50 + "'"), HEAD.replace("descr", "d\\escr")):
    npy_case("dictionary " + header.strip()[:24], npy(header, DATA), "header")
npy_case("NUL in the header", npy(HEAD.replace("F", "\0"), DATA), "header")
npy_case("header of noise", npy(bytes(range(256)), DATA), "header")
npy_case("pickle", npy(dictionary("'|O'"), b"\x80\x04cos\nsystem\n."), "descr")

# ---- .safetensors ----

TENSOR = {"dtype": "F32", "shape": [1, 2, 3, 4], "data_offsets": [0, 96]}


def safetensors(header, data=b"\0" * 288, length=None):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def file_of(**changes):
    header = {name: dict(TENSOR, data_offsets=[96 * i, 96 * i + 96]) for i, name in enumerate("qkv")}
    header.update(changes)
    return {name: entry for name, entry in header.items() if entry is not None}


def q_with(**changes):
    entry = dict(TENSOR)
    entry.update(changes)
    return file_of(q={name: field for name, field in entry.items() if field is not None})


def st_case(label, data, *words, more=()):
    name = save("st-%03d.safetensors" % len(cases), data)
    case("safetensors: " + label, ["run", name] + list(more), *words)


FILE, GOOD = "file st-", safetensors(file_of())
save("good.safetensors", GOOD)
TEXT = json.dumps(file_of()).encode()

st_case("empty file", b"", FILE, "too short")
st_case("seven bytes", b"\0" * 7, FILE, "too short")
st_case("header length 0", safetensors(b"", b""), FILE, "header of 0 bytes")
st_case("header length beyond the file", safetensors(TEXT, length=len(GOOD)), FILE, "header of")
st_case("header length 2^63", safetensors(TEXT, length=1 << 63), FILE, "header of")
st_case("header length 2^64 - 1", safetensors(TEXT, length=(1 << 64) - 1), FILE, "header of")
st_case("header length one short", safetensors(TEXT, length=len(TEXT) - 1), FILE, "header")
st_case("header length one long", safetensors(TEXT, length=len(TEXT) + 1), FILE, "header")
st_case("header over the limit", safetensors(TEXT + b" " * (17 << 20)), FILE, "header of")
for cut in range(1, len(TEXT) - 1, 12):
    st_case("JSON cut at %d" % cut, safetensors(TEXT[:cut]), FILE, "header")
st_case("not JSON", safetensors(b"{q: 1}"), FILE, "JSON")
st_case("JSON list", safetensors(b"[1, 2, 3]"), FILE, "begin with {")
st_case("blank before the JSON", safetensors(b" " + TEXT), FILE, "begin with {")
st_case("text after the JSON", safetensors(TEXT + b" x"), FILE, "only blanks")
st_case("NUL after the JSON", safetensors(TEXT + b"\0"), FILE, "only blanks")
st_case("nested 100,000 deep", safetensors(b'{"q":' + b"[" * 100000), FILE, "nested")
st_case("nested objects", safetensors(b'{"a":' * 50000), FILE, "nested")
st_case("no tensors, but data", safetensors(b"{}"), FILE, "bytes of data")
st_case("no tensors", safetensors(b"{}", b""), "query")
for label, old, new in (("float as an extent", b"2, 3, 4", b"2, 3, 4e0"), ("extent 1e0", b"[1, 2", b"[1e0, 2"),
                        ("extent 1.0", b"[1, 2", b"[1.0, 2"), ("extent -0", b"[1, 2", b"[-0, 2"),
                        ("offset 0e0", b"[0, 96]", b"[0e0, 96]"), ("offset 96.0", b"[0, 96]", b"[0, 96.0]"),
                        ("offset -0", b"[0, 96]", b"[-0, 96]"), ("no column", b'"q": {', b'"q" {'),
                        ("extent 01", b"[1, 2", b"[01, 2"), ("extent +1", b"[1, 2", b"[+1, 2"),
                        ("extent 1.", b"[1, 2", b"[1., 2"), ("extent .1", b"[1, 2", b"[.1, 2"),
                        ("extent 0x1", b"[1, 2", b"[0x1, 2"), ("extent NaN", b"[1, 2", b"[NaN, 2"),
                        ("comma at an array's end", b"[0, 96]", b"[0, 96,]"),
                        ("comma at an object's end", b"96]}", b"96],}"), ("two commas", b"[0, 96]", b"[0,, 96]"),
                        ("newline in a name", b'"q"', b'"q\n"'), ("tab in a name", b'"q"', b'"q\t"'),
                        ("escape character in a name", b'"q"', b'"q\x1b"'), ("U+0001", b'"q"', b'"\x01"'),
                        ("invalid UTF-8 in a name", b'"q"', b'"q\xff"'), ("cut UTF-8", b'"q"', b'"q\xc3"'),
                        ("overlong UTF-8", b'"q"', b'"q\xc0\x80"'), ("surrogate", b'"q"', b'"q\xed\xa0\x80"'),
                        ("lone high surrogate", b'"q"', b'"q\\ud800"'), ("lone low", b'"q"', b'"q\\udc00"'),
                        ("two high surrogates", b'"q"', b'"q\\ud800\\ud800"'), ("escape", b'"q"', b'"q\\x41"'),
                        ("short escape", b'"q"', b'"q\\u12"'), ("U+0000 in a name", b'"q"', b'"q\\u0000"'),
                        ("control character in a dtype", b'"F32"', b'"F32\x02"'),
                        ("comment", b'"q":', b'/* q */ "q":'), ("form feed", b'"q":', b'"q":\f'),
                        ("byte order mark inside", b'"q":', b'\xef\xbb\xbf"q":')):
    st_case("JSON: " + label, safetensors(TEXT.replace(old, new, 1)), FILE)
st_case("JSON: control character in a note", safetensors(b'{"__metadata__": {"a": "\x07"}}', b""), FILE, "JSON")
st_case("JSON: U+0000 in a note", safetensors(b'{"__metadata__": {"a": "\\u0000"}}', b""), "__metadata__")
st_case("two metadata", safetensors(b'{"__metadata__": {}, "__metadata__": {}}', b""), "twice")
st_case("duplicate tensor", safetensors(TEXT.replace(b'"k"', b'"q"')), FILE, "twice")
st_case("duplicate field", safetensors(TEXT.replace(b'"dtype": "F32"', b'"dtype": "F32", "dtype": "F32"', 1)),
        "twice")
st_case("duplicate metadata", safetensors(b'{"__metadata__": {"a": "1", "a": "2"}}', b""), "twice")
st_case("two names for the query", safetensors(file_of(k=None, query=dict(TENSOR, data_offsets=[96, 192]))),
        "already")
for value in 1, "x", None, [1], True:
    st_case("tensor is %r" % (value, ), safetensors({"q": value}, b""), "tensor q", "object")
for name in TENSOR:
    st_case("no " + name, safetensors(q_with(**{name: None})), "tensor q", "must have")
st_case("unknown field", safetensors(q_with(strides=[1])), "tensor q", "strides")
for dtype in "F8", "U128", "f32", "", "X" * 5000, 7, None and 0, ["F32"]:
    if dtype is not None:
        st_case("dtype %.8r" % (dtype, ), safetensors(q_with(dtype=dtype)), "tensor q", "dtype")
for shape in "x", 24, {"a":
                       1}, [-1,
                            24], [1.5], ["24"], [[24]], [True], [1e300], [2**53 + 2], [1] * 8 + [24], [None]:
    st_case("shape %.20r" % (shape, ), safetensors(q_with(shape=shape)), "tensor q", "shape")
st_case("shape overflows", safetensors(q_with(shape=[2**40, 2**40])), "tensor q", "62 bits")
st_case("shape overflows behind a zero", safetensors(q_with(shape=[0, 2**50, 2**50], data_offsets=[0, 0])),
        "62 bits")
st_case("shape needs more than its offsets", safetensors(q_with(shape=[1, 2, 3, 5])), "tensor q",
        "data_offsets")
st_case("dtype needs more than its offsets", safetensors(q_with(dtype="F64")), "tensor q", "data_offsets")
for offsets in [96, 0], [0], [0, 96, 96], "x", [-96, 0], [0.5, 96.5], ["0", "96"], [0, 2**63], None and 0, {}:
    if offsets is not None:
        st_case("offsets %r" % (offsets, ), safetensors(q_with(data_offsets=offsets)), "tensor q",
                "data_offsets")
st_case("overlap", safetensors(file_of(k=dict(TENSOR, data_offsets=[48, 144]))), "overlaps")
st_case("the same place twice", safetensors(file_of(k=TENSOR)), "overlaps")
st_case("hole", safetensors(file_of(v=dict(TENSOR, data_offsets=[200, 296])), b"\0" * 296), "hole")
st_case("hole at the front", safetensors({"q": dict(TENSOR, data_offsets=[8, 104])}, b"\0" * 104), "hole")
st_case("data truncated", GOOD[:-1], "truncated")
st_case("data missing", GOOD[:8 + len(TEXT)], "truncated")
st_case("data too long", GOOD + b"\0", "bytes of data")
st_case("metadata is a list", safetensors(file_of(__metadata__=[1])), "__metadata__")
st_case("metadata holds a number", safetensors(file_of(__metadata__={"a": 1})), "__metadata__")
for name in "qkv":
    header = file_of(**{name: None})
    for i, left in enumerate(header.values()):
        left["data_offsets"] = [96 * i, 96 * i + 96]
    st_case("no tensor " + name, safetensors(header, b"\0" * 192), "has no tensor")


def with_tensor(name, shape, dtype="F32", data=None, **metadata):
    size = {"F32": 4, "F64": 8, "F16": 2, "I32": 4, "I64": 8, "U8": 1, "BOOL": 1}[dtype]
    count = 1
    for extent in shape:
        count *= extent
    data = b"\0" * (count * size) if data is None else data
    header = file_of(**{name: {"dtype": dtype, "shape": shape, "data_offsets": [288, 288 + len(data)]}})
    if metadata:
        header["__metadata__"] = metadata
    return safetensors(header, b"\0" * 288 + data)


def ints(*values):
    return struct.pack("<%di" % len(values), *values)


st_case("mask of integers", with_tensor("mask", [3, 3], "I32"), "mask")
st_case("mask too wide", with_tensor("mask", [3, 4], "BOOL"), "mask", "broadcast")
st_case("mask with other heads", with_tensor("mask", [1, 5, 3, 3], "BOOL"), "mask", "broadcast")
st_case("mask with another batch", with_tensor("mask", [7, 2, 3, 3], "BOOL"), "mask", "broadcast")
st_case("mask without axes", with_tensor("mask", [], "BOOL"), "mask", "broadcast")
st_case("bias of integers", with_tensor("bias", [3, 3], "I32"), "bias")
st_case("bias too tall", with_tensor("bias", [4, 3]), "bias", "broadcast")
st_case("key_lengths above the keys", with_tensor("key_lengths", [1], "I32", ints(4)), "key_lengths[0]")
st_case("key_lengths negative", with_tensor("key_lengths", [1], "I32", ints(-1)), "key_lengths[0]")
st_case("key_lengths of floats", with_tensor("key_lengths", [1]), "key_lengths")
st_case("key_lengths for another batch", with_tensor("key_lengths", [2], "I32"), "key_lengths count")
st_case("slopes for other heads", with_tensor("slopes", [3]), "slopes", more=["--align", "top-left"])
st_case("slopes without alignment", with_tensor("slopes", [2]), "--align")
st_case("slopes of integers", with_tensor("slopes", [2], "I32"), "slopes")
st_case("sinks for other heads", with_tensor("sinks", [3]), "sinks")
st_case("sinks with two axes", with_tensor("sinks", [1, 2]), "sinks")
st_case("past key without past value", with_tensor("past_key", [1, 2, 1, 4]), "past value")
st_case("cu_q without thd", with_tensor("cu_q", [2], "I32", ints(0, 3)), "cu_q", "thd")
st_case("option and tensor",
        with_tensor("key_lengths", [1], "I32"),
        "--key-lengths",
        more=["--key-lengths", "3"])
st_case("mask option and tensor", with_tensor("mask", [3, 3], "BOOL"), "--mask", more=["--mask", "good.npy"])
st_case("tokens are no JSON", with_tensor("x1", [1], tokens="[nope"), "tokens", more=["--show"])
st_case("tokens are many", with_tensor("x1", [1], tokens="[" + "1," * 600000 + "1]"), "tokens", more=["--show"])
st_case("tokens are numbers", with_tensor("x1", [1], tokens="[1, 2, 3]"), "tokens", more=["--show"])

# ---- shapes against each other ----


def shapes_case(label, q, k, v, *words, more=()):
    names = [
        save("shape-%03d-%s.npy" % (len(cases), name), array(shape)) for name, shape in zip("qkv", (q, k, v))
    ]
    case("shapes: " + label, ["run", "--q", names[0], "--k", names[1], "--v", names[2]] + list(more), *words)


A = (1, 2, 3, 4)
shapes_case("key head dim", A, (1, 2, 3, 5), A, "key head dim")
shapes_case("key batch", A, (2, 2, 3, 4), A, "key batch")
shapes_case("value batch", A, A, (2, 2, 3, 4), "value batch")
shapes_case("value heads", A, A, (1, 1, 3, 4), "value heads")
shapes_case("value length", A, A, (1, 2, 4, 4), "value length")
shapes_case("heads no multiple", (1, 3, 3, 4), A, A, "query_heads", "multiple")
shapes_case("fewer query heads than key heads", (1, 1, 3, 4), A, A, "query_heads")
shapes_case("one axis", (4, ), A, A, "query", "shape")
shapes_case("head dim 0", (1, 2, 3, 0), (1, 2, 3, 0), A, "head dim")
shapes_case("value head dim 0", A, A, (1, 2, 3, 0), "head dim")
shapes_case("eight axes", (1, 1, 1, 1, 1, 2, 3, 4), A, A, "query", "shape")
shapes_case("bs(hd) without heads", (1, 3, 8), (1, 3, 8), (1, 3, 8), "--heads", more=["--layout", "bs(hd)"])
shapes_case("bs(hd) not divisible", (1, 3, 8), (1, 3, 8), (1, 3, 8),
            "multiple",
            more=["--layout", "bs(hd)", "--heads", "3"])
shapes_case("thd without cu", (3, 2, 4), (3, 2, 4), (3, 2, 4), "cu_q", more=["--layout", "thd"])
for cu, word in ("1,3", "0 to the 3"), ("0,2", "0 to the 3"), ("0,2,1,3",
                                                               "cu_q[2]"), ("0,9",
                                                                            "cu_q"), ("0,-1,3",
                                                                                      "cu_q"), ("3", "cu_q"):
    shapes_case("cu " + cu, (3, 2, 4), (3, 2, 4), (3, 2, 4), word, more=["--layout", "thd", "--cu-q", cu])
shapes_case("cu_k of other sequences", (3, 2, 4), (3, 2, 4), (3, 2, 4),
            "cu_k",
            more=["--layout", "thd", "--cu-q", "0,3", "--cu-k", "0,1,3"])
shapes_case("thd with four axes", A, A, A, "query", more=["--layout", "thd", "--cu-q", "0,3"])
shapes_case("cu without thd", A, A, A, "cu_q", more=["--cu-q", "0,3"])
shapes_case("key lengths for another batch", A, A, A, "key_lengths", more=["--key-lengths", "3,3"])
shapes_case("key length above", A, A, A, "key_lengths", more=["--key-lengths", "4"])
shapes_case("offsets for another batch", A, A, A, "offsets", more=["--causal", "0,1"])
shapes_case("past key alone", A, A, A, "past value", more=["--past-key", "good.npy"])
save("past.npy", array((1, 2, 3, 5)))
shapes_case("past head dim",
            A,
            A,
            A,
            "past head dim",
            more=["--past-key", "past.npy", "--past-value", "past.npy"])
save("half.npy", array(A, "<f2", b"\0\0"))
save("ints.npy", array(A, "<i4"))
case("types: key float16", ["run", "--q", "good.npy", "--k", "half.npy", "--v", "good.npy"], "key", "--dtype")
case("types: integers", ["run", "--q", "ints.npy", "--k", "ints.npy", "--v", "ints.npy"], "query", "float")
