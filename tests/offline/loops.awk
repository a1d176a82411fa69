# The innermost loops of a disassembly (llvm-objdump, AT&T's order of operands on x86) with multiply-adds of vectors.
# Each is written to a file of its own, -v prefix, and has a line of standard output:
#
#     FUNCTION FILE ADDRESS KIND MULTIPLY_ADDS LOADS RELOADS SPILLS CALLS
#
# ADDRESS: of the multiply-add in the middle. KIND: what multiply-adds they are (fma_ymm_ps, pair_xmm_ps, fma_v_4s). A
# loop of fewer than 8 counts only as the rest of another one (columns that are left over): 4 at least.

/^[0-9a-f]+ <.*>:$/ { report(); name = $2; gsub(/[<>:]/, "", name) }
/^ *[0-9a-f]+: / {
    address = $1
    sub(/:/, "", address)
    line = $0
    sub(/^ *[0-9a-f]+:[ \t]*/, "", line)
    sub(/ *<.*/, "", line)      # what symbol a branch goes to
    sub(/ *(#|\/\/) .*/, "", line)
    gsub(/[ \t]+/, " ", line)
    sub(/ $/, "", line)
    text[++lines] = line
    addresses[lines] = address
    at[address] = lines
}
END { report() }

# The registers of a text, by the names of their 64 bits.
function registers(part,    found, all) {
    all = " "
    while (match(part, /%?[a-z]+[0-9]*[a-z]*/)) {
        found = substr(part, RSTART, RLENGTH)
        part = substr(part, RSTART + RLENGTH)
        sub(/^%/, "", found)
        if (found ~ /^e([abcd]x|[sd]i|[sb]p)$/) found = "r" substr(found, 2)
        if (found ~ /^r[0-9]+d$/) sub(/d$/, "", found)
        if (found ~ /^w[0-9]+$/) sub(/^w/, "x", found)
        all = all found " "
    }
    return all
}

function memory_of(line) {
    return match(line, /[^ ,]*\([^)]*\)|\[[xs][^]]*\]!?/) ? substr(line, RSTART, RLENGTH) : ""
}

# What general registers an instruction writes.
function written(line, op,    memory, changed) {
    if (op ~ /^(cmp|test|prf|prefetch|st|b$|b\.|cb|tb|j)/ && line !~ /\](, |!)/) return " "
    memory = memory_of(line)
    if (line ~ /%/) { # x86: the last operand
        sub(/.*[ ,]/, "", line)
        return line ~ /^%/ ? registers(line) : " "
    }
    changed = line ~ /\](, |!)/ ? registers(memory) : " " # steps the address
    if (op ~ /^st/) return changed
    sub(/^[^ ]* /, "", line)
    if (op ~ /^ldp/) { sub(/, \[.*/, "", line); return changed registers(line) }
    sub(/,.*/, "", line)
    return changed registers(line)
}

function kind_of(line, op) {
    if (op ~ /^vfn?m(add|sub)[0-9]+p[sd]$/ && match(line, /[xyz]mm/))
        return "fma_" substr(line, RSTART, 3) "_" substr(op, length(op) - 1)
    if (op ~ /^v?addp[sd]$/) return "pair_xmm_" substr(op, length(op) - 1)
    if (op ~ /^fml[as]$/ && match(line, /\.(4s|2d|2s)/)) return "fma_v_" substr(line, RSTART + 1, 2)
    return ""
}

function measure(first, last,    i, k, n, op, own, kind, memory, list, is_changed, is_fixed, muls, adds, places, file, \
                 loads, reloads, spills, calls) {
    muls = adds = loads = reloads = spills = calls = 0
    for (i = first; i <= last; i++) {
        op = text[i]
        sub(/ .*/, "", op)
        n = split(written(text[i], op), list, " ")
        for (k = 1; k <= n; k++) is_changed[list[k]] = 1
        if (op ~ /^v?mulp[sd]$/) muls++
    }
    for (i = first; i <= last; i++) {
        op = text[i]
        sub(/ .*/, "", op)
        own = kind_of(text[i], op)
        if (own ~ /^fma/) { if (kind !~ /^fma/) adds = 0; kind = own; places[++adds] = i }
        else if (own != "" && kind !~ /^fma/) { kind = own; places[++adds] = i }
        if (op ~ /^(call|bl)/) calls++
        memory = memory_of(text[i])
        if (memory == "" || op ~ /^(lea|nop|prf|prefetch)/) continue
        n = split(registers(memory), list, " ")
        is_fixed = memory !~ /rip/ # which constants are addressed by
        for (k = 1; k <= n; k++) if (list[k] in is_changed) is_fixed = 0
        if (op ~ /^st/ || (text[i] ~ /\)$/ && op ~ /^v?mov/)) spills += is_fixed
        else { loads++; reloads += is_fixed }
    }
    own = places[int((adds + 1) / 2)]
    if (kind ~ /^pair/ && muls < adds) adds = muls
    if (adds < 4) return
    file = prefix "." ++files ".s"
    for (i = first; i <= last; i++) print text[i] >file
    close(file)
    print name, file, "0x" addresses[own], kind, adds, loads, reloads, spills, calls
}

# The loops of a function: from where a branch goes back to, to the branch. Wrappers that PoCL makes around a kernel
# have no debug information, and its loops once more.
function report(    i, k, m, loops, first, last, to, inner) {
    loops = 0
    for (i = 1; i <= lines && name !~ /_workgroup/; i++) {
        if (text[i] ~ /^(j|b |b\.|cbn?z|tbn?z)/ && match(text[i], /0x[0-9a-f]+$/)) {
            to = substr(text[i], RSTART + 2)
            if (to in at && at[to] <= i) { first[++loops] = at[to]; last[loops] = i }
        }
    }
    for (k = 1; k <= loops; k++) {
        inner = 1
        for (m = 1; m <= loops; m++) if (m != k && first[m] >= first[k] && last[m] <= last[k]) inner = 0
        if (inner) measure(first[k], last[k])
    }
    lines = 0
    split("", at)
}
