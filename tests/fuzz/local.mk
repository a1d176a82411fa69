# Fuzz targets: tests/fuzz/NAME FOLDER, run by tests/fuzz/short in make check, by tests/fuzz/run with libFuzzer, by
# tests/fuzz/count for hours.
fuzz_targets = \
	tests/fuzz/calls \
	tests/fuzz/kernel_includes \
	tests/fuzz/npy \
	tests/fuzz/options \
	tests/fuzz/problems \
	tests/fuzz/program_files \
	tests/fuzz/safetensors \
	tests/fuzz/shapes \
	tests/fuzz/wisdom

# What gives a target its inputs: tests/fuzz/run puts -fsanitize=fuzzer here, which is no file to depend on.
FUZZ_DRIVER = libclattn_fuzz.la
libclattn_fuzz_la_SOURCES = tests/fuzz/drive.c
libclattn_fuzz_la_LIBADD = libclattn_test.la

fuzz_ldadd = $(FUZZ_DRIVER) $(LDADD)
fuzz_depends = libclattn_fuzz.la libclattn_test.la libclattn_tool.la libclattn_core.la
fuzz_common = tests/fuzz/fuzz.c tests/fuzz/fuzz.h
fuzz_trials = tests/fuzz/problem_kinds.c tests/fuzz/problem_kinds.h tests/fuzz/trials.c tests/fuzz/trials.h
tests_fuzz_calls_SOURCES = tests/fuzz/calls.c $(fuzz_trials) $(null_driver_sources) $(fuzz_common)
tests_fuzz_calls_LDADD = $(fuzz_ldadd)
tests_fuzz_calls_DEPENDENCIES = $(fuzz_depends)
tests_fuzz_calls_LDFLAGS = $(tests_offline_programs_LDFLAGS)
tests_fuzz_kernel_includes_SOURCES = tests/fuzz/kernel_includes.c $(fuzz_common)
tests_fuzz_kernel_includes_LDADD = $(fuzz_ldadd)
tests_fuzz_kernel_includes_DEPENDENCIES = $(fuzz_depends)
tests_fuzz_npy_SOURCES = tests/fuzz/npy.c $(fuzz_common)
tests_fuzz_npy_LDADD = $(fuzz_ldadd)
tests_fuzz_npy_DEPENDENCIES = $(fuzz_depends)
tests_fuzz_options_SOURCES = tests/fuzz/options.c $(fuzz_common)
tests_fuzz_options_LDADD = $(fuzz_ldadd)
tests_fuzz_options_DEPENDENCIES = $(fuzz_depends)
tests_fuzz_problems_SOURCES = tests/fuzz/problems.c $(fuzz_trials) $(null_driver_sources) $(fuzz_common)
tests_fuzz_problems_LDADD = $(fuzz_ldadd)
tests_fuzz_problems_DEPENDENCIES = $(fuzz_depends)
tests_fuzz_problems_LDFLAGS = $(tests_offline_programs_LDFLAGS)
tests_fuzz_program_files_SOURCES = tests/fuzz/program_files.c $(fuzz_common)
tests_fuzz_program_files_LDADD = $(fuzz_ldadd)
tests_fuzz_program_files_DEPENDENCIES = $(fuzz_depends)
tests_fuzz_safetensors_SOURCES = tests/fuzz/safetensors.c $(fuzz_common)
tests_fuzz_safetensors_LDADD = $(fuzz_ldadd)
tests_fuzz_safetensors_DEPENDENCIES = $(fuzz_depends)
tests_fuzz_shapes_SOURCES = tests/fuzz/shapes.c $(fuzz_common)
tests_fuzz_shapes_LDADD = $(fuzz_ldadd)
tests_fuzz_shapes_DEPENDENCIES = $(fuzz_depends)
tests_fuzz_wisdom_SOURCES = tests/fuzz/wisdom.c $(fuzz_common)
tests_fuzz_wisdom_LDADD = $(fuzz_ldadd)
tests_fuzz_wisdom_DEPENDENCIES = $(fuzz_depends)

EXTRA_DIST += tests/fuzz/corpus tests/fuzz/count tests/fuzz/run tests/fuzz/short

if TESTS_ENABLED
check_LTLIBRARIES += libclattn_fuzz.la
check_PROGRAMS += $(fuzz_targets)
TESTS += tests/fuzz/short
endif
