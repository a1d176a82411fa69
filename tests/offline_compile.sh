#!/bin/sh
# usage: tests/offline_compile.sh [TARGET...]
#
# What the compilers of GPU vendors make of fused_simt, without their hardware: registers, local memory and
# spills for each head dim and tile of the tuning table, on Intel (ocloc), AMD (clang for amdgcn) and NVIDIA
# (clang for nvptx64, then ptxas). A spill to memory is a failure; so is a kernel that does not compile. A
# target whose compiler is missing is named and counted as skipped. The last line is "N passed, N failed,
# N skipped"; exit status 1 when something failed, 77 when nothing ran.
#
# Debian: intel-opencl-icd has ocloc; clang-19 and libclc-19 (or one older pair) serve AMD and NVIDIA; ptxas
# comes with NVIDIA's CUDA toolkit. OCLOC, CLANG, LIBCLC (the folder of .bc files) and PTXAS name others.
set -u
source_dir=${srcdir:-$(dirname "$0")/..}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
[ $# -gt 0 ] || set -- tgllp dg2 pvc gfx90a gfx1030 gfx1100 sm_80 sm_90

# Name, then the tile of src/tuning_table.c with the output columns and staged values that
# src/strategy/fused_simt.c gives it, then features (cl/params.h) and storage type (1 float32, 2 float16).
cat >"$work/kernels" <<'EOF'
d64           64 64 4 256  64 32  0x0   1
d128          64 64 4 256 128 16  0x0   1
d128-small    32 32 4  64  64 16  0x0   1
d64-causal    64 64 4 256  64 32  0x1   1
d128-causal   64 64 4 256 128 16  0x1   1
d128-mask     64 64 4 256 128 16  0x8   1
d128-all      64 64 4 256 128 16  0x63b 1
d128-bias     64 64 4 256 128 16  0x11  1
d128-float16  64 64 4 256 128 16  0x1   2
EOF

first_of() { # COMMAND...: the first that is there
    for name; do
        command -v "$name" && return
    done
    return 1
}

clang=${CLANG:-$(first_of clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 clang)}
ocloc=${OCLOC:-$(first_of ocloc)}
ptxas=${PTXAS:-$(first_of ptxas)}
libclc=${LIBCLC:-}
for folder in /usr/lib/clc /usr/share/clc /usr/libexec/clc; do
    [ -n "$libclc" ] || [ ! -d "$folder" ] || libclc=$folder
done

# The text of fused_simt.cl with its includes in place, each once, as the library builds it.
flatten() {
    awk -v folder="$source_dir/cl/" '
        function add(file, line, name) {
            if (file in seen) return
            seen[file] = 1
            while ((getline line < (folder file)) > 0) {
                if (line ~ /^#include "/) {
                    name = line; sub(/^#include "/, "", name); sub(/".*/, "", name)
                    add(name)
                } else print line
            }
            close(folder file)
        }
        BEGIN { add("fused_simt.cl") }'
}
flatten >"$work/fused_simt.cl"

report() { # TARGET KERNEL REGISTERS LOCAL_BYTES SPILL_BYTES NOTE
    verdict=ok
    [ "$5" = 0 ] || verdict=SPILLS
    printf '%-8s %-13s %4s registers %6s bytes local %5s bytes spilled  %-18s %s\n' "$1" "$2" "$3" \
        "$4" "$5" "$6" "$verdict"
    if [ "$5" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

broken() { # TARGET KERNEL LOG
    echo "$1 $2: does not compile:"
    sed 's/^/    /' "$3" | head -10
    failed=$((failed + 1))
}

skip() { # TARGET WHY
    echo "$1: skipped: $2"
    skipped=$((skipped + $(wc -l <"$work/kernels")))
}

run_clang() { # LIBRARY OUT CLANG_OPTION...
    library=$1 out=$2
    shift 2
    # shellcheck disable=SC2086 # $defines is a list
    "$clang" -x cl -cl-std=CL1.2 -cl-mad-enable -O3 -nogpulib -Xclang -finclude-default-header \
        -D__OPENCL_VERSION__=120 -Wno-macro-redefined -Xclang -mlink-builtin-bitcode -Xclang "$library" \
        $defines "$@" -S -o "$out" "$work/fused_simt.cl" >"$work/log" 2>&1
}

# -DNAME=VALUE as clang and ocloc take it, for one line of the list of kernels.
define() {
    defines="-DTILE_ROWS=$2 -DTILE_KEYS=$3 -DITEM_KEYS=$4 -DWORK_ITEMS=$5 -DCOLUMNS=$6 -DKEYS_STAGED=$7"
    defines="$defines -DFEATURES=${8}u -DTYPE=$9 -DBIAS_TYPE=1"
}

amd_library() { # GPU: its own builtins, else those of an older one
    for name in "$1" gfx906 tahiti; do
        [ ! -f "$libclc/$name-amdgcn--.bc" ] || { echo "$libclc/$name-amdgcn--.bc"; return; }
    done
    return 1
}

value_of() { # KEY FILE: of the metadata in AMD assembly
    sed -n "s/^ *\.$1: *\([0-9]*\)$/\1/p" "$2" | head -1
}

compile_amd() { # TARGET KERNEL
    run_clang "$(amd_library "$1")" "$work/out.s" -target amdgcn-amd-amdhsa -mcpu="$1" ||
        { broken "$1" "$2" "$work/log"; return; }
    report "$1" "$2" "$(value_of vgpr_count "$work/out.s")" \
        "$(value_of group_segment_fixed_size "$work/out.s")" \
        "$(value_of private_segment_fixed_size "$work/out.s")" \
        "occupancy $(sed -n 's/^; Occupancy: //p' "$work/out.s" | head -1) waves"
}

compile_nvidia() { # TARGET KERNEL
    most=255
    [ "$items" -lt 256 ] || [ "$has_dropout" != 0 ] || most=$((32768 / items))
    # shellcheck disable=SC2015 # broken serves both failures
    run_clang "$libclc/nvptx64--nvidiacl.bc" "$work/out.ptx" -target nvptx64-nvidia-nvcl \
        -Xclang -target-cpu -Xclang "$1" -Xclang -target-feature -Xclang +ptx78 &&
        "$ptxas" -v -arch="$1" --maxrregcount="$most" "$work/out.ptx" -o "$work/out.cubin" >"$work/log" 2>&1 ||
        { broken "$1" "$2" "$work/log"; return; }
    registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$work/log")
    report "$1" "$2" "$registers" "$(sed -n 's/.* \([0-9]*\) bytes smem.*/\1/p' "$work/log")" \
        "$(sed -n 's/.* \([0-9]*\) bytes spill stores.*/\1/p' "$work/log")" \
        "$((65536 / (registers * items))) groups of $items"
}

# The little-endian word at $2 of the first patch token $1 of the dumped binary; nothing without one. Token 15
# has the local memory, 18 the scratch memory of a thread, 23 sub-group size and registers.
token_word() {
    bytes=$(awk -v token="$1" -v word="$2" '
        $2 == "Token" { here = $3 == token }
        here && $1 == "Hex" { at = 4 * word; print $(at + 5), $(at + 4), $(at + 3), $(at + 2); exit }
    ' "$work/intel/dump/PTM.txt")
    [ -n "$bytes" ] || return 0
    # shellcheck disable=SC2086
    set -- $bytes
    echo $(((0x$1 << 24) + (0x$2 << 16) + (0x$3 << 8) + 0x$4))
}

compile_intel() { # TARGET KERNEL
    sub_group=8 more=
    if [ "$1" = pvc ]; then
        sub_group=16
        [ "$changes_scores" = 0 ] || more=-cl-intel-256-GRF-per-thread
    fi
    rm -rf "$work/intel"
    mkdir "$work/intel"
    # shellcheck disable=SC2015 # broken serves both failures
    "$ocloc" compile -file "$work/fused_simt.cl" -device "$1" -out_dir "$work/intel" -options \
        "-cl-std=CL1.2 -cl-mad-enable -D SUB_GROUP_SIZE=$sub_group $more $defines" >"$work/log" 2>&1 &&
        "$ocloc" disasm -file "$work/intel/"*.bin -device "$1" -dump "$work/intel/dump" >>"$work/log" 2>&1 ||
        { broken "$1" "$2" "$work/log"; return; }
    spilled=$(token_word 18 1)
    report "$1" "$2" "$(token_word 23 20)" "$(token_word 15 1)" "${spilled:-0}" "sub-group $(token_word 23 3)"
}

for target; do
    case $target in
    gfx*) compile=compile_amd needs="clang and libclc for amdgcn"
        [ -n "$clang" ] && [ -n "$libclc" ] && amd_library "$target" >/dev/null ;;
    sm_*) compile=compile_nvidia needs="clang, libclc for nvptx64 and ptxas"
        [ -n "$clang" ] && [ -f "$libclc/nvptx64--nvidiacl.bc" ] && [ -n "$ptxas" ] ;;
    *) compile=compile_intel needs="ocloc"
        [ -n "$ocloc" ] ;;
    esac || { skip "$target" "needs $needs"; continue; }
    while read -r name tile; do
        # shellcheck disable=SC2086 # the fields of the tile
        define "$name" $tile
        # shellcheck disable=SC2086
        items=$(set -- $tile; echo "$4")
        # Bias, slopes, softcap or dropout. The build options are those of src/strategy/fused_simt.c.
        # shellcheck disable=SC2086
        changes_scores=$(set -- $tile; echo $(($7 & 0x630))) has_dropout=$((changes_scores & 0x400))
        $compile "$target" "$name"
    done <"$work/kernels"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] || exit 1
[ "$passed" != 0 ] || exit 77
