"""Cases of hard sums: their inputs are texts, or single rows that stand for many; their outputs are samples.

usage: expand.py expand CASES TO        each case as tests/cases has them, with whole inputs, for tests/solve_cases
       expand.py sample CASES PRODUCED  of what solve_cases made of these, the rows and keys that the goldens have

Needs nothing but Python 3.8.
"""
import array
import ast
import json
import os
import struct
import sys

WHOLE = {"out_rows": "out", "lse_rows": "lse", "dq_rows": "dq", "dk_keys": "dk", "dv_keys": "dv"}


def load(path):
    """(shape, array of float32) of a file that numpy wrote."""
    with open(path, "rb") as f:
        raw = f.read()
    at = 10 + struct.unpack("<H", raw[8:10])[0]
    head = ast.literal_eval(raw[10:at].decode("latin1"))
    if head["descr"] != "<f4" or head["fortran_order"]:
        sys.exit("%s: %s" % (path, head))
    return head["shape"], array.array("f", raw[at:])


def save(path, shape, values):
    head = repr({"descr": "<f4", "fortran_order": False, "shape": tuple(shape)})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode("latin1") + values.tobytes())


def by_formula(shape, text):
    value = eval(text, {"where": lambda condition, yes, no: yes if condition else no})
    batch, heads, rows, columns = shape
    return array.array("f", (value(b, h, r, c) for b in range(batch) for h in range(heads) for r in range(rows)
                             for c in range(columns)))


def by_rows(shape, strides, stored):
    batch, heads, rows, columns = shape
    if strides[2:] != [0, 1]:
        sys.exit("strides %s" % strides)
    whole = array.array("f")
    for b in range(batch):
        for h in range(heads):
            at = b * strides[0] + h * strides[1]
            whole.extend(stored[at:at + columns] * rows)
    return whole


def expand(case, meta, to):
    inputs = {}
    for name, given in meta["inputs"].items():
        shape, values = load(os.path.join(case, given["file"]))
        view = meta.get("strides_of_0", {}).get(name)
        if view:
            shape, values = view["shape"], by_rows(view["shape"], view["strides"], values)
        inputs[name] = (shape, values)
    for name, formula in meta.get("formulas", {}).items():
        inputs[name] = (formula["shape"], by_formula(formula["shape"], formula["python"]))
    os.makedirs(to)
    for name, (shape, values) in inputs.items():
        save(os.path.join(to, name + ".npy"), shape, values)
    whole = dict(meta)
    whole["inputs"] = {name: {"file": name + ".npy", "shape": list(shape), "dtype": "float32"}
                       for name, (shape, values) in inputs.items()}
    whole["outputs"] = {WHOLE.get(name, name): dict(out, file=WHOLE.get(name, name) + ".npy")
                        for name, out in meta["outputs"].items()}
    whole["required_outputs"] = [WHOLE.get(name, name) for name in meta["required_outputs"]]
    for field in ("formulas", "strides_of_0"):
        whole.pop(field, None)
    with open(os.path.join(to, "meta.json"), "w") as f:
        json.dump(whole, f, indent=1)


def sample(case, meta, produced):
    for name in meta["outputs"]:
        path = os.path.join(produced, WHOLE.get(name, name) + ".npy")
        if name == WHOLE.get(name, name) or not os.path.exists(path):
            continue
        numbers = meta["params"]["sampled_keys" if name.endswith("_keys") else "sampled_rows"]
        shape, values = load(path)
        columns = shape[3] if len(shape) == 4 else 1
        taken = array.array("f")
        for plane in range(shape[0] * shape[1]):
            for n in numbers:
                at = (plane * shape[2] + n) * columns
                taken.extend(values[at:at + columns])
        save(os.path.join(produced, name + ".npy"), list(shape[:2]) + [len(numbers)] + list(shape[3:]), taken)


def main():
    what, cases, where = sys.argv[1:]
    for name in sorted(os.listdir(cases)):
        case = os.path.join(cases, name)
        if os.path.exists(os.path.join(case, "meta.json")):
            with open(os.path.join(case, "meta.json")) as f:
                meta = json.load(f)
            {"expand": expand, "sample": sample}[what](case, meta, os.path.join(where, name))


main()
