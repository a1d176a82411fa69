# make check. Included by the Makefile.am at the top. A test's exit status: 0 passed, 77 skipped, else
# failed; a Check program or a last line "N passed, N failed, N skipped" is counted in detail by ./check.

LDADD = libclattn_test.la libclattn_tool.la libclattn_core.la $(CHECK_LIBS) $(DL_LIBS)

# Tests of CLBlast itself.
if CLBLAST
clblast_programs = \
	tests/clblast_strided_batched \
	tests/robust/choices
endif

# One source file each, of the same name; those that take long first, so that none of them runs alone at the end.
test_programs = \
	tests/exact \
	tests/robust/guards \
	tests/random_calls tests/random_key_sums \
	tests/gradients/exact_gradients \
	tests/gradients/identities \
	tests/gradients/texts tests/gradients/two_ways \
	tests/gradients/sharp_gradients \
	tests/gradients/ends \
	tests/gradients/long_gradients \
	tests/gradients/random_gradients \
	tests/robust/faults \
	tests/metamorphic \
	$(clblast_programs) \
	tests/long_sums \
	tests/layers/mha \
	tests/layers/mha_gradients \
	tests/layers/mha_derivatives \
	tests/layers/equal_terms \
	tests/layers/sharp \
	tests/kernels/staged \
	tests/layers/lessons \
	tests/api/host \
	tests/robust/threads \
	tests/robust/soak \
	tests/layers/additive \
	tests/layers/additive_gradients \
	tests/layers/additive_derivatives \
	tests/case_calls \
	tests/paged_cases \
	tests/api/host_refused \
	tests/api/problems \
	tests/api/append \
	tests/api/group tests/api/group_keys \
	tests/api/ring_ranks \
	tests/api/arguments \
	tests/api/calls \
	tests/api/costs \
	tests/api/plan_requests \
	tests/api/empty_axes \
	tests/api/environment \
	tests/api/events \
	tests/api/kernel_times \
	tests/api/layers \
	tests/api/cancelled \
	tests/api/codes \
	tests/api/user_code \
	tests/api/block_mask \
	tests/api/locales \
	tests/api/merging \
	tests/api/many_parts \
	tests/api/merged_sinks \
	tests/api/operations \
	tests/api/range \
	tests/api/sharing \
	tests/api/small_stack \
	tests/api/workspaces \
	tests/robust/file_faults \
	tests/robust/first_result \
	tests/robust/fork \
	tests/robust/kills \
	tests/robust/large_index \
	tests/cache/keys \
	tests/cache/program_cache \
	tests/cache/program_files \
	tests/cache/rehearsals \
	tests/cache/wisdom \
	tests/docs/features \
	tests/kernels/groups \
	tests/kernels/layouts \
	tests/unit/alibi \
	tests/unit/append \
	tests/unit/call tests/unit/device_quirks \
	tests/unit/environment \
	tests/unit/gpu_choices \
	tests/unit/gradients tests/unit/group_choice \
	tests/unit/half tests/unit/host_regions tests/unit/host_sharing \
	tests/unit/kernel_source \
	tests/unit/launch_parts \
	tests/unit/overlap \
	tests/unit/philox \
	tests/unit/pools \
	tests/unit/presence \
	tests/unit/problem \
	tests/unit/process_mark \
	tests/unit/program_binary \
	tests/unit/program_second \
	tests/unit/program_text \
	tests/unit/reference \
	tests/unit/ring \
	tests/unit/ring_given tests/unit/ring_layouts \
	tests/unit/rotary \
	tests/unit/self_check \
	tests/unit/self_check_gradients \
	tests/unit/standard_input \
	tests/unit/quantise_ends tests/unit/stored_types \
	tests/unit/value_in_key tests/unit/verdicts \
	tests/unit/wisdom

# The gradients' tests that share their problems.
gradient_kinds = tests/gradients/kind_check.c tests/gradients/kinds.c tests/gradients/kinds.h
tests_gradients_exact_gradients_SOURCES = \
	$(gradient_kinds) \
	tests/gradients/exact_empty.c \
	tests/gradients/exact_gradients.c \
	tests/gradients/exact_others.c \
	tests/gradients/exact_others.h \
	tests/gradients/exact_places.c
tests_gradients_identities_SOURCES = $(gradient_kinds) tests/gradients/identities.c
tests_gradients_ends_SOURCES = $(gradient_kinds) tests/gradients/ends.c
tests_gradients_sharp_gradients_SOURCES = $(gradient_kinds) tests/gradients/sharp_gradients.c
tests_gradients_texts_SOURCES = $(gradient_kinds) tests/gradients/texts.c
tests_gradients_two_ways_SOURCES = $(gradient_kinds) tests/gradients/two_ways.c
# Each kernel by itself, against its twin on the host.
tests_kernels_staged_SOURCES = \
	tests/kernels/twin_rows.c \
	tests/kernels/twin_rows.h \
	tests/kernels/run.c tests/kernels/run.h \
	tests/kernels/staged.c \
	tests/kernels/twins.h \
	tests/kernels/twins_scores.c \
	tests/kernels/twins_weights.c

# A process that has more rights than its user.
tests_unit_environment_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=getauxval,--wrap=getuid,--wrap=geteuid,--wrap=getgid,--wrap=getegid

# Drivers and devices that do other than they say; threads that wait for the test, and what they are made with.
tests_api_costs_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clBuildProgram
tests_api_plan_requests_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_create
tests_unit_program_binary_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clGetProgramInfo
tests_api_group_keys_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clCreateBuffer
tests_api_host_refused_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=clCreateBuffer,--wrap=clReleaseMemObject,--wrap=clEnqueueWriteBuffer
tests_unit_group_choice_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=group_call_run,--wrap=clock_ms,--wrap=clock_idle
tests_unit_host_sharing_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=clGetDeviceInfo,--wrap=clCreateBuffer,--wrap=clEnqueueWriteBuffer,--wrap=clReleaseMemObject

# The programs that clattn gives to GPUs and CPUs, for their compilers: planned on a driver of its own.
null_driver_sources = \
	tests/offline/null_devices.c \
	tests/offline/null_driver.c \
	tests/offline/null_driver.h \
	tests/offline/null_launches.c \
	tests/offline/null_library.c \
	tests/offline/null_programs.c
tests_offline_programs_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=gemm_is_built,--wrap=gemm_prepare,--wrap=ladder_has
tests_offline_programs_SOURCES = \
	$(null_driver_sources) \
	tests/offline/problems.c \
	tests/offline/problems.h \
	tests/offline/programs.c \
	tests/offline/taken.c tests/offline/taken.h

# The table of docs/features.md, planned on the same driver.
tests_docs_features_LDFLAGS = $(tests_offline_programs_LDFLAGS)
tests_docs_features_SOURCES = \
	tests/docs/features.c \
	$(null_driver_sources)

# What plans choose on GPUs, likewise.
tests_unit_gpu_choices_LDFLAGS = $(tests_offline_programs_LDFLAGS)
tests_unit_gpu_choices_SOURCES = \
	$(null_driver_sources) \
	tests/unit/gpu_choices.c

# Programs that are built twice, likewise; and what that driver refuses.
tests_unit_program_second_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=gemm_is_built,--wrap=gemm_prepare,--wrap=ladder_has,--wrap=clBuildProgram,--wrap=clGetProgramBuildInfo
tests_unit_program_second_SOURCES = \
	$(null_driver_sources) \
	tests/unit/program_second.c

# Preloaded, by tests/emulated/amx.sh.
layers += tests/emulated/amx_emulator.la
tests_emulated_amx_emulator_la_CFLAGS = $(layer_cflags)
tests_emulated_amx_emulator_la_LDFLAGS = $(layer_ldflags)
tests_emulated_amx_emulator_la_LIBADD = $(DL_LIBS)

# Needs nothing of clattn.
tests_offline_build_LDADD = $(OPENCL_LIBS)

# Scripts; they read srcdir and builddir. Those that take long first.
test_scripts = \
	tests/run_cases.sh \
	tests/sum_cases.sh \
	tests/cpu_classes.sh \
	tests/emulated/matrix_units.sh \
	tests/random_fused.sh \
	tests/random_mixed.sh \
	tests/random_texts.sh \
	tests/text_cases.sh \
	tests/emulated/amx.sh \
	tests/robust/oclgrind.sh \
	tests/case_calls_fused.sh \
	tests/paged_cases_split.sh \
	tests/robust/devices.sh \
	tests/cli/run \
	tests/emulated/probes.sh \
	tests/robust/guard_cases.sh \
	tests/robust/guard_layers.sh \
	tests/robust/broken_devices.sh \
	tests/cli/malformed \
	tests/cli/manners \
	tests/cli/edges \
	tests/cli/tensor_files \
	tests/cli/words \
	tests/cli/caches \
	tests/cli/grad \
	tests/cli/texts \
	tests/cli/report \
	tests/cli/ring tests/cli/selfcheck tests/cli/several \
	tests/cli/tune \
	tests/generate/hostile \
	tests/cache/program_cache.sh \
	tests/cache/self_check.sh \
	tests/docs/made \
	tests/docs/pages \
	tests/kernel_cache.sh \
	tests/limits.sh tests/blanks.sh tests/offline/counting tests/offline/files \
	tests/quickstart \
	tests/abi/run \
	tests/rules \
	tests/exports
EXTRA_DIST += $(test_scripts)

if TESTS_ENABLED
check_LTLIBRARIES += libclattn_test.la $(layers)
noinst_PROGRAMS += tests/solve_cases
check_PROGRAMS += $(test_programs) tests/offline/build tests/offline/programs tests/offline/rewrite \
	tests/emulated/amx_instructions tests/emulated/emulated_rungs tests/emulated/probe tests/robust/together
TESTS += $(test_scripts) $(test_programs)

# Each test has a limit of time; the slowest are named at the end.
LOG_COMPILER = $(SHELL) $(srcdir)/tests/limited

# It measures times, and so runs alone, after all others.
measures_alone = tests/layers/lessons.log
$(measures_alone): $(filter-out $(measures_alone),$(TEST_LOGS))

# Both need the same kernels: whoever comes second finds them compiled.
$(filter tests/robust/guard_cases.sh.log,$(TEST_LOGS)): $(filter tests/run_cases.sh.log,$(TEST_LOGS))

check-local: check-TESTS
	@$(srcdir)/scripts/slowest $(TEST_LOGS)
else
check-local:
	@echo "configured with --disable-tests: nothing was tested" >&2; exit 1
endif

# Device tests share one kernel cache, PoCL's; what clattn itself keeps on disk only its own tests write. Which
# kernels are optimised is said by tests/icd/quick_layer.c, tests/short.txt and tests/limited.
# AddressSanitizer's table of thread-local memory holds garbage once drivers are loaded, over which its search
# for leaks stumbles; a cancelled thread's stack keeps marks, over which the end of its signal stack does: without both.
AM_TESTS_ENVIRONMENT = \
	ASAN_OPTIONS=$${ASAN_OPTIONS-intercept_tls_get_addr=0:use_sigaltstack=0}; export ASAN_OPTIONS; \
	LSAN_OPTIONS=$${LSAN_OPTIONS-suppressions=$(abs_srcdir)/tests/leaks-of-others.txt:print_suppressions=0}; \
	export LSAN_OPTIONS; \
	POCL_CACHE_DIR=$${POCL_CACHE_DIR-$(abs_builddir)/pocl-cache}; export POCL_CACHE_DIR; \
	OPENCL_LAYERS=$${OPENCL_LAYERS-$(abs_builddir)/tests/icd/.libs/quick_layer.so}; export OPENCL_LAYERS; \
	CLATTN_CACHE=$${CLATTN_CACHE-off}; export CLATTN_CACHE; \
	CLATTN_WISDOM_DIR=; export CLATTN_WISDOM_DIR; \
	CLATTN_SELF_CHECK=$${CLATTN_SELF_CHECK-off}; export CLATTN_SELF_CHECK; \
	CK_VERBOSITY=$${CK_VERBOSITY-normal}; export CK_VERBOSITY; \
	srcdir='$(abs_srcdir)'; export srcdir; \
	builddir='$(abs_builddir)'; export builddir; \
	mkdir -p "$$POCL_CACHE_DIR";

# The test programs on every OpenCL runtime that can be had; tests/runtimes/run has the options.
RUNTIMES =
.PHONY: check-runtimes
check-runtimes: all $(check_PROGRAMS) $(check_LTLIBRARIES)
	$(AM_TESTS_ENVIRONMENT) $(srcdir)/tests/runtimes/run $(RUNTIMES)

EXTRA_DIST += \
	tests/runtimes/binaries \
	tests/runtimes/common.sh \
	tests/runtimes/debian-root \
	tests/runtimes/in-root \
	tests/runtimes/intel-cpu \
	tests/runtimes/intel-fpga-emulator \
	tests/runtimes/oclgrind \
	tests/runtimes/pocl \
	tests/runtimes/pocl-arm64 \
	tests/runtimes/pocl5 \
	tests/runtimes/pocl6 \
	tests/runtimes/run \
	tests/runtimes/rusticl \
	tests/runtimes/together

# The cases with their goldens, as a whole.
EXTRA_DIST += tests/README.md tests/cases tests/sum_cases tests/text_cases
EXTRA_DIST += \
	tests/abi/libclattn.abi \
	tests/analyze \
	tests/clang_tool \
	tests/clang_tools.sh \
	tests/cli/counted.py \
	tests/cli/formats.py \
	tests/cli/malformed_files.py \
	tests/consumer/CMakeLists.txt \
	tests/consumer/by_cmake \
	tests/consumer/consumer.c \
	tests/consumer/fetched/CMakeLists.txt \
	tests/consumer/growth.c \
	tests/consumer/growth_tries.h \
	tests/consumer/growth_layers.c \
	tests/consumer/other_headers.py \
	tests/consumer/run \
	tests/consumer/subdirectory/CMakeLists.txt \
	tests/fresh \
	tests/generate/alice.txt \
	tests/generate/expected.json \
	tests/generate/make_expected.py \
	tests/generate/run \
	tests/generate/small_model.py \
	tests/generate/with_model.sh \
	tests/leaks-of-others.txt \
	tests/limited \
	tests/long \
	tests/mutants.txt \
	tests/mutants_host.txt tests/mutants_ranks.txt \
	tests/mutate \
	tests/mutate_self_check.py \
	tests/races-of-others.txt \
	tests/robust/memcheck \
	tests/robust/thread_sanitizer \
	tests/short.txt \
	tests/tidy \
	tests/counts.sh \
	tests/coverage \
	tests/docs/counted.py \
	tests/docs/made.py \
	tests/docs/pages.py \
	tests/emulated/tiles.sh \
	tests/windows/cjson \
	tests/windows/cross \
	tests/windows/under_wine \
	tests/unit/suite.h

# An installed clattn serves programs outside the tree; distcheck runs this too.
installcheck-local:
	$(srcdir)/tests/consumer/run '$(prefix)' '$(libdir)'
