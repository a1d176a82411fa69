#!/bin/sh
# Probes of the ladder that are broken: a copy of the kernels in which one does not compile, or multiplies wrong.
# `clattn devices` and `clattn explain` must say so, the strategy must decline or do without, and what is taken
# instead must compute right. AVX512-BF16 on CPUs that have it; AMX too where it can be emulated; and GPUs' probes,
# emulated, of which only the ladder's verdict is asked.
# Run by make check, or with builddir and srcdir set.
set -eu
: "${builddir:=.}" "${srcdir:=$(dirname "$0")/../..}"
# shellcheck source=tests/emulated/tiles.sh
. "$srcdir/tests/emulated/tiles.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
problem='--shape 1,1,1,64,64,64 --dtype bf16'

# expect WHAT TEXT FILE: one line of the file has the text.
expect() {
    if grep -qF -e "$2" "$3"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1: nothing says \"$2\":"
        sed 's/^/    /' "$3" | head -n 20
    fi
}

# run COMMAND...: its status in $status, all that it says in $work/said.
run() {
    status=0
    with_tiles "$@" >"$work/said" 2>&1 || status=$?
}

# ends WHAT STATUS: how the last command ended.
ends() {
    if [ "$status" = "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1 ended with status $status, should end with $2:"
        tail -n 5 "$work/said"
    fi
}

# copy_kernels FILE SED: the kernels with one file changed.
copy_kernels() {
    rm -rf "$work/cl"
    cp -R "$srcdir/cl" "$work/cl"
    chmod -R u+w "$work/cl"
    change_kernel "$1" "$2"
}

# change_kernel FILE SED: the change must change something.
change_kernel() {
    sed "$2" "$srcdir/cl/$1" >"$work/changed"
    if cmp -s "$srcdir/cl/$1" "$work/changed"; then
        echo "FAILED: the line to change is no longer in cl/$1"
        failed=$((failed + 1))
    fi
    mv -f "$work/changed" "$work/cl/$1"
    export CLATTN_CL_DIR="$work/cl"
}

# with_broken RUNG FILE LINE WRONG SAYS: LINE of the probe becomes one that does not compile, then WRONG. SAYS is how
# the automatic choice's plan names the rung before the reason.
with_broken() {
    rung=$1
    for wrong in 'there is no such thing;' "$4"; do
        copy_kernels "$2" "s|^\\( *\\)$3\$|\\1$wrong|"
        case $wrong in there*) reason='error:' ;; *) reason='results are wrong' ;; esac
        run "$builddir/clattn" devices
        ends "$rung, $reason: devices" 0
        grep -F "$rung (" "$work/said" >"$work/line" || true
        expect "$rung: devices" ': no: ' "$work/line"
        expect "$rung: devices" "$reason" "$work/line"
        # shellcheck disable=SC2086 # the options
        run "$builddir/clattn" explain $problem
        ends "$rung, $reason: explain" 0
        grep -F "$5" "$work/said" >"$work/line" || true
        expect "$rung: explain" "$reason" "$work/line"
        run "$builddir/tests/random_calls" --strategy auto --type bfloat16 --seed 5 --count 4 --same 4 --work 20000
        ends "$rung, $reason: random calls" 0
    done
}

preload=
unset CLATTN_CL_DIR
run "$builddir/clattn" devices
if grep -q 'avx512_bf16 (.*: yes' "$work/said"; then
    with_broken avx512_bf16 probes/probe_avx512_bf16.cl \
        'vstore16(sum, m, product);' 'vstore16(sum + 1.0f, m, product);' \
        'float32 multiply-adds (avx512_bf16: '
else
    echo 'the chosen device has no AVX512-BF16'
    skipped=$((skipped + 1))
fi

unset CLATTN_CL_DIR
preload_tiles || preload=
run "$builddir/clattn" devices
if grep -q 'amx_bf16 (.*: yes' "$work/said"; then
    with_broken amx_bf16 probes/probe_amx.cl 'product\[i\] = sum\[i\];' 'product[i] = sum[i] + (i == 77);' \
        'fused_amx: declined: amx_bf16: '
    # By name there is no other: the reason is the error.
    # shellcheck disable=SC2086 # the options
    run "$builddir/clattn" explain $problem --strategy fused_amx
    ends 'fused_amx by name' 2
    expect 'fused_amx by name' 'the probe ran and 1 of 256 results are wrong' "$work/said"
else
    echo 'the chosen device has no AMX, and there is none to be emulated'
    skipped=$((skipped + 1))
fi

# emulated_rungs_say WHAT TEXT: of every one, and there are some. Compilers may say more, on other lines.
emulated_rungs_say() {
    run "$builddir/tests/emulated/emulated_rungs"
    ends "matrix units, $1" 0
    expect "matrix units, $1" "$2" "$work/said"
    grep -E '^[a-z0-9_]+: ' "$work/said" | grep -vF -e "$2" >"$work/line" || true
    if [ -s "$work/line" ]; then
        failed=$((failed + 1))
        echo "FAILED: matrix units, $1: these do not say \"$2\":"
        cat "$work/line"
    fi
}

preload=
unset CLATTN_CL_DIR
emulated_rungs_say 'as they are' ': yes'
copy_kernels probes/probe_mma.cl 's|^\( *\)multiply_add(&u, score, key, query);$|\1there is no such thing;|'
change_kernel probes/probe_wgmma.cl 's|^\( *\)product_of_keys(&u, .*$|\1there is no such thing;|'
emulated_rungs_say 'one that does not compile' 'error:'
copy_kernels probes/probe_mma.cl 's|product\[at\] = score\[i\];|product[at] = score[i] + (at == 77);|'
change_kernel probes/probe_wgmma.cl \
    's|B_COLUMNS + n\] = score\[i\];|B_COLUMNS + n] = score[i] + (row == 1 \&\& n == 13);|'
emulated_rungs_say 'one wrong result' ': no: the probe ran and 1 of '

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] || exit 1
[ "$passed" != 0 ] || exit 77
