#!/bin/sh
# The self-check in whole processes: a driver that computes wrong, or dies, gives no wrong result, and the next process
# knows. The driver is PoCL's under mutant_layer, which changes kernels on their way to it. Run by make check, or with
# builddir and srcdir set.
set -eu
: "${builddir:=.}" "${srcdir:=.}"
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layers=$builddir/tests/icd/.libs
[ -f "$layers/mutant_layer.so" ] || { echo "no $layers/mutant_layer.so"; exit 1; }
"$builddir/tests/emulated/probe" --is-pocl || {
    echo "the device is not PoCL: it was given no mutants"
    skipped=1
    finish
}
export CLATTN_WISDOM_DIR="" CLATTN_CACHE=on CLATTN_SELF_CHECK=always
export OPENCL_LAYERS="$layers/mutant_layer.so:$layers/quick_layer.so"

# says WHAT STATUS TEXT... [-- NOT...]: how the last command ended, what it says, and what it does not.
says() {
    what=$1 wanted=$2 negated=
    shift 2
    [ "$status" = "$wanted" ] || failure "ended with $status, not $wanted" || return 0
    for text; do
        if [ "$text" = -- ]; then
            negated=1
        elif grep -qF -e "$text" "$work/said"; then
            [ -z "$negated" ] || failure "says \"$text\"" || return 0
        else
            [ -n "$negated" ] || failure "nothing says \"$text\"" || return 0
        fi
    done
    passed=$((passed + 1))
}

failure() {
    failed=$((failed + 1))
    echo "FAILED $what: $1"
    sed 's/^/    /' "$work/said" | cut -c1-200
    return 1
}

run() { # COMMAND...
    status=0
    "$@" >"$work/said" 2>&1 || status=$?
}

explain() { run "$builddir/clattn" explain --shape 1,4,2,40,100,24 "$@"; }
compute() { run "$builddir/clattn" bench --shape 1,4,2,40,100,24 --seconds 0 "$@"; }
fresh() { export CLATTN_CACHE_DIR="$work/$1"; }
is() { # WHAT COMMAND...
    what=$1
    shift
    : >"$work/said"
    if "$@"; then passed=$((passed + 1)); else failure "is not so" || :; fi
}
# shellcheck disable=SC2317 # called by is
{
verdicts() { cat "$CLATTN_CACHE_DIR"/*.judged 2>/dev/null || :; }
has_verdict() { [ "$(verdicts | grep -c "^$1\$")" = "$2" ]; }
has_no_files() { [ ! -e "$CLATTN_CACHE_DIR" ]; }
}

# A sound driver.
fresh sound
explain --strategy plain
says "a first plan" 0 "self-check: good, its known answers were right"
is "one verdict" has_verdict good 1
explain --strategy plain
says "the next process" 0 "self-check: good, as found before"
explain --strategy plain --mask bool
says "other features" 0 "self-check: good, its known answers were right"
run "$builddir/clattn" explain --shape 1,8,2,32,400,12,24 --varlen --strategy split_simt
says "kernels built for more rows than a call of the check has" 0 "self-check: good, its known answers were right"
explain --strategy plain --backward
says "gradients, which know no verdict of the forward's" 0 "self-check: good, its known answers were right"
CLATTN_SELF_CHECK=off explain --strategy plain
says "no check" 0 "strategy: plain" -- "self-check"
CLATTN_SELF_CHECK='' explain --strategy plain
says "a version of PoCL that is tested" 0 "strategy: plain" -- "self-check"
CLATTN_SELF_CHECK=maybe explain --strategy plain
says "a value that there is none of" 2 'CLATTN_SELF_CHECK "maybe": must be always, again or off'

# One that forgets to rescale, in every kernel of `plain`; and one in the kernels that CPUs take.
fresh wrong
export MUTANT_OLD='soft->row_sum *= rescale;' MUTANT_NEW='soft->row_sum *= 1;'
CLATTN_SELF_CHECK=off compute --strategy plain
says "the mutant computes wrong" 1 "wrong"
compute --strategy plain
says "a strategy by name" 2 'strategy "plain" cannot take this problem' \
    "self-check: a known answer came out wrong: out["
is "its verdict" has_verdict bad 1
compute
says "another strategy" 0 -- wrong
explain --strategy plain
says "the next process knows" 2 "self-check: a known answer came out wrong: out["
MUTANT_OLD='' explain --strategy plain
says "the same driver stays refused" 2 "self-check: a known answer came out wrong: out["
MUTANT_OLD='' CLATTN_SELF_CHECK=again explain --strategy plain
says "again" 0 "self-check: good, its known answers were right"
is "its new verdict" has_verdict bad 0
CLATTN_CACHE=off compute --strategy plain
says "without a cache" 2 "self-check: a known answer came out wrong: out["
# The automatic choice goes to another strategy, and says so.
fresh automatic
export MUTANT_OLD='sum[v] = FMA(sum[v], rescale[v], block_sum[v]);' MUTANT_NEW='sum[v] += block_sum[v];' # of fused_simd
explain
says "the automatic choice" 0 "  fused_simd: declined: self-check: a known answer came out wrong" \
    "self-check: good" -- "strategy: fused_simd"

# One that dies when it builds, or runs, what it does not like.
export MUTANT_OLD='soft->row_sum *= rescale;' MUTANT_NEW='soft->row_sum *= rescale;'
for death in build run; do
    fresh "death-$death"
    MUTANT_DEATH=$death
    export MUTANT_DEATH
    explain --strategy plain
    says "death by $death" 137
    is "a trial was begun" has_verdict trying 1
    MUTANT_DEATH='' explain --strategy plain
    says "one death by $death may be its user's doing" 0 "self-check: good, its known answers were right"
    is "nothing is left of it" has_verdict trying 0
    fresh "deaths-$death"
    explain --strategy plain
    says "a first death by $death" 137
    explain --strategy plain
    says "a second death by $death" 137
    is "a second trial was begun" has_verdict "trying again" 1
    explain --strategy plain
    says "after two deaths by $death" 2 'strategy "plain" cannot take this problem' "self-check: two processes ended"
    compute
    says "other strategies after deaths by $death" 0
    CLATTN_SELF_CHECK=again MUTANT_DEATH='' explain --strategy plain
    says "a new driver after deaths by $death" 0 "self-check: good, its known answers were right"
done
# One that refuses to run them, and lives.
fresh refuses
MUTANT_DEATH=refuse explain --strategy plain
says "refused kernels" 2 'strategy "plain" cannot take this problem' "a known answer could not be computed: " \
    CL_OUT_OF_RESOURCES
unset MUTANT_DEATH

# Each output is looked at, closely, and whatever only some inputs would show. A row: what is wrong, in which output, by
# which change of plain/plain.cl, and the options that bring it about.
wide="--window 30,-1 --align top-left" narrow="--window 2,1 --always 3 --align bottom-right"
while IFS='|' read -r what output MUTANT_OLD MUTANT_NEW options; do
    fresh "wrong $what"
    # shellcheck disable=SC2086 # options are words
    explain --strategy plain $options
    says "$what" 2 "self-check: a known answer came out wrong: ${output}["
done <<EOF
a thousandth|out|soft->row_sum *= rescale;|soft->row_sum *= rescale * 1.001f;|
not a number|out|soft->row_sum *= rescale;|soft->row_sum = NAN;|
the last column of each product|out|c < p->head_dim; ++c) {|c + 1 < p->head_dim; ++c) {|
the logarithm of sums|lse|soft.row_maximum, soft.row_sum)|soft.row_maximum, 1)|--lse
weights|weights|CLATTN_CL_WEIGHTS_SOFTMAX ? weight|CLATTN_CL_WEIGHTS_SOFTMAX ? 0|--weights softmax
values of hidden keys, times 0|out|if (allowed) {|if (j >= 0) {|--key-lengths --weights softmax
the first key of a window|out|window_low(p, s, i), last_key|window_low(p, s, i) + 1, last_key|$wide
pinned keys behind a window|out|p->always_visible_keys == 0 ?|1 ?|$narrow
pinned keys before a window|out|p->window_right + 1,|p->window_right + 1, 0 *|$narrow
where a page table begins|out|s.tables = in->page_table + OFFSET(page_table)|s.tables = in->page_table|--page-size 16
pages behind the pool|out|STRIDE(page_table, 3)] < (uint)p->pages|STRIDE(page_table, 3)] < 1 << 30|--page-size 16
the last key of a page table|out|s->key_len) - 1|s->key_len) - 2|--page-size 16
sinks of rows without keys|lse|if (HAS(SINKS)) {|if (HAS(SINKS) && soft.any_allowed) {|--sinks --key-lengths --lse
key lengths beyond the keys|out|+ b], 0, s.key_len);|+ b], -9, s.key_len + 9);|--key-lengths
what out and dout have in common|dquery|dout, r, j) - r->d);|dout, r, j));|--backward
the last head of a group|dkey|h < (kv_head + 1) * group; ++h)|h < (kv_head + 1) * group - (group > 1); ++h)|--backward
the first row that sees a key|dkey|clamp(j - s.offset, (|clamp(j - s.offset + 1, (|--backward --causal bottom-right
the softcap's derivative|dquery|score_slope(p, in, &place, *logit) : 1;|1 : 1;|--backward --softcap 20
EOF
# A value that is not finite, and that only some of a few rows do not see.
while IFS='|' read -r strategy MUTANT_OLD MUTANT_NEW; do
    fresh "hidden from rows of $strategy"
    run "$builddir/clattn" explain --shape 1,2,2,3,100,24 --strategy "$strategy" --causal bottom-right
    says "hidden from some rows of $strategy" 2 "self-check: a known answer came out wrong: out["
done <<EOF
staged|visible ? weight : FROM_BITS((INTV)HIDDEN_WEIGHT_BITS), row + j|visible ? weight : (REALV)0, row + j
split_simt|!IS_HIDDEN_WEIGHT(weight);|1;
EOF
# One long sum where there should be blocks and runs of them, which equal terms alone tell.
one_sum='REAL sums[COLUMNS]; FOR_COLUMNS { sums[c] = total[c]; total[c] = 0; }'
while IFS='|' read -r strategy output MUTANT_OLD MUTANT_NEW options; do
    fresh "one sum of $strategy $output"
    # shellcheck disable=SC2086 # options are words
    run "$builddir/clattn" explain --strategy "$strategy" $options
    says "one long sum of $strategy, $output" 2 "self-check: a known answer came out wrong: ${output}["
done <<EOF
plain|out|REAL sums[COLUMNS] = { 0 };|$one_sum|--shape 1,2,2,3,4096,24
plain|dkey|REAL sums[COLUMNS] = { 0 };|$one_sum|--shape 1,2,1,2048,100,24 --backward
fused_simt|out|if (RUNS && next_from < high|if (0 && next_from < high|--shape 1,2,2,3,8192,24
EOF
# Elements that are nobody's.
fresh beside
MUTANT_OLD='HAS(LSE) && column == 0 && r.exists'
MUTANT_NEW='HAS(LSE) && column == 0 && (r.exists || b + 1 == p->batch && h + 1 == p->query_heads && i == r.s.query_len)'
explain --strategy plain --varlen --lse
says "beside the elements" 2 "self-check: a known answer was written beside the elements of lse"
unset MUTANT_OLD MUTANT_NEW

# Verdicts that are damaged or not the user's own are none.
fresh damaged
explain --strategy plain
for file in "$CLATTN_CACHE_DIR"/*.judged; do
    for content in '' 'clattn verdict 1' 'clattn verdict 2' "$(sed 's/^[0-9a-f]\{64\}$/0/; s/^good$/bad/' "$file")" \
        "$(sed 's/^good$/well/' "$file")" "$(head -c 100000 /dev/zero | tr '\0' x)"; do
        printf '%s\n' "$content" >"$file"
        explain --strategy plain
        says "a damaged verdict" 0 "self-check: good, its known answers were right"
    done
    sed 's/^good$/bad/; s/^its known answers$/\x1b[31mred/' "$file" >"$work/forged"
    cat "$work/forged" >"$file"
    explain --strategy plain
    says "what it says is shown without control characters" 2 'self-check: ?[31mred'
    rm "$file"
    ln -s "$work/forged" "$file"
    explain --strategy plain
    says "a link" 0 "self-check: good, its known answers were right"
    rm "$file"
    install -m 666 "$work/forged" "$file"
    explain --strategy plain
    says "one that others may write" 0 "self-check: good, its known answers were right"
done
fresh nowhere
CLATTN_CACHE=off explain --strategy plain
is "CLATTN_CACHE=off leaves no files" has_no_files
finish
