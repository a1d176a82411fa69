"""Files of tensors, read and written by the programs beside this one themselves, in a folder of their own."""
import json
import os
import struct
import tempfile

from counted import check

FOLDER = tempfile.mkdtemp(prefix="clattn-cli-")

FORMATS = {"F32": "f", "F64": "d", "F16": "e", "I32": "i", "I64": "q", "U8": "B", "BOOL": "?"}
NPY_FORMATS = {"<f4": "f", "<f8": "d", "<f2": "e", "<i4": "i", "<u4": "I", "<i8": "q", "|b1": "?", "|u1": "B"}


def count(shape):
    product = 1
    for extent in shape:
        product *= extent
    return product


def read_safetensors(file):
    data = open(file, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            item = FORMATS[entry["dtype"]]
            tensors[name] = entry["shape"], struct.unpack("<%d%s" % (count(entry["shape"]), item),
                                                          data[8 + size + begin:8 + size + end])
    return tensors


def read_npy(file):
    data = open(file, "rb").read()
    check(file + " is .npy 1.0", data[:8] == b"\x93NUMPY\x01\x00")
    size = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + size], {})
    check(file + " aligns its data", (10 + size) % 64 == 0)
    item = NPY_FORMATS[header["descr"]]
    return list(header["shape"]), struct.unpack("<%d%s" % (count(header["shape"]), item), data[10 + size:])


def write_npy(name, shape, values, descr="<f4", fortran=False, version=1):
    header = ("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }" %
              (descr, fortran, "".join("%d, " % n for n in shape))).encode()
    start = b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(start + header + b"\n" + struct.pack("<%d%s" % (len(values), NPY_FORMATS[descr]), *values))
    return name


def write_safetensors(name, tensors, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for key, (dtype, shape, values) in tensors.items():
        more = struct.pack("<%d%s" % (len(values), FORMATS[dtype]), *values)
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return name
