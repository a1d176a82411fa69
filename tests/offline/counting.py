"""usage: counting.py BUDGET

Machine code by hand, a loop over tiles of fused_wgmma on sm_90, and how many issue slots BUDGET counts of it. A line of
a case is an instruction, behind `cold ` where its place says that it is off the common path (COLD of BUDGET), or
`LABEL:`. Each loop has one product, without which it would be none of tiles."""
import subprocess
import sys
import tempfile
from pathlib import Path

WARM, COLD, PRODUCT = 1, 2, 3  # numbers of places
PLACES = {WARM: "fused_wgmma", COLD: "raise_bases fused_wgmma", PRODUCT: "product_of_keys fused_wgmma"}
NUMBERS = {"group_items": 128, "group_products": 64 * 8 * 16}
MULTIPLY = "HGMMA.64x8x16.F32 R4, gdesc[UR4], R4"

CASES = {
    "all of a loop": (3, f"top: | {MULTIPLY} | IADD3 R1, R1, 1 | @P0 BRA `(top) | EXIT"),
    "what stands before and behind it": (
        2, f"IADD3 R1, R1, 1 | top: | {MULTIPLY} | @P0 BRA `(top) | IADD3 R1, R1, 1 | EXIT"),
    "a cold way, which most turns go round": (
        4, f"top: | {MULTIPLY} | @P1 BRA `(on) | cold FMUL R2, R2, R3 | cold FMUL R3, R2, R3 | on: | IADD3 R1, R1, 1 | "
           "@P0 BRA `(top) | EXIT"),
    "what has a cold place, and every turn passes": (
        4, f"top: | {MULTIPLY} | cold FMUL R2, R2, R3 | IADD3 R1, R1, 1 | @P0 BRA `(top) | EXIT"),
    "two cold ways, of which a turn takes one": (
        3, f"top: | {MULTIPLY} | @P1 BRA `(other) | cold FMUL R2, R2, R3 | cold BRA `(on) | other: | "
           "cold FMUL R3, R2, R3 | on: | @P0 BRA `(top) | EXIT"),
    "a cold way that never comes back": (
        3, f"top: | {MULTIPLY} | @P1 BRA `(out) | @P0 BRA `(top) | EXIT | out: | cold FMUL R2, R2, R3 | EXIT"),
    "a part of the loop behind its end, left by a call": (
        5, f"top: | {MULTIPLY} | @P1 BRA `(far) | back: | @P0 BRA `(top) | EXIT | far: | IADD3 R1, R1, 1 | "
           "CALL.REL.NOINC `(back) | IADD3 R1, R1, 1 | BRA `(top)"),
    "the same, cold": (
        3, f"top: | {MULTIPLY} | @P1 BRA `(far) | back: | @P0 BRA `(top) | EXIT | far: | cold IADD3 R1, R1, 1 | "
           "cold CALL.REL.NOINC `(back)"),
    "lanes that have come apart go another way": (
        4, f"top: | {MULTIPLY} | BRA.DIV UR4, `(apart) | cold FMUL R2, R2, R3 | on: | @P0 BRA `(top) | EXIT | apart: | "
           "cold FMUL R2, R2, R3 | cold BRA `(on)"),
}


def write(base, kernel):
    lines = [".text.fused_wgmma:"]
    for at, one in enumerate(part.strip() for part in kernel.split("|")):
        if one.endswith(":"):
            lines.append(f".L_{one}")
            continue
        place = COLD if one.startswith("cold ") else PRODUCT if one == MULTIPLY else WARM
        text = one.removeprefix("cold ").replace("`(", "`(.L_")
        lines.append(f'\t//## File "program", line {place}')
        lines.append(f"        /*{16 * at:04x}*/                   {text} ;")
    Path(f"{base}.machine").write_text("\n".join(lines) + "\n")
    frames = {number: " ".join(f"{name}:wgmma/fused_wgmma.cl:1" for name in names.split())
              for number, names in PLACES.items()}
    Path(f"{base}.places").write_text("".join(f"{number} {text}\n" for number, text in frames.items()))
    Path(f"{base}.numbers").write_text("".join(f"{name} {value}\n" for name, value in NUMBERS.items()))


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (slots, kernel) in CASES.items():
            base = f"{folder}/0"
            write(base, kernel)
            said = subprocess.run([sys.executable, "-B", sys.argv[1], "sm_90", "fused_wgmma", base],
                                  capture_output=True, text=True, check=False, timeout=60)
            counted = said.stdout.split()[:1]
            if counted != [str(slots)]:
                failed += 1
                print(f"counting: {name}: {slots} slots, not {' '.join(counted)}{said.stderr.strip()[-300:]}")
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
