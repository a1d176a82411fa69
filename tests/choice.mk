# Parts of make check, which build no more than they need: make check-choice and make check-unit. Included by the
# Makefile.am at the top, after all lists of tests.

# What notices most for its time: in about ten minutes of one core it reaches 94 % of the lines that all tests reach,
# and has what notices nearly all mutants of the library and half of those of kernels; the others are about GPUs, matrix
# units and races. tests/choice.txt has what these tests are given.
chosen_tests = $(filter \
	tests/run_cases.sh tests/exact tests/random_calls \
	tests/gradients/exact_gradients tests/gradients/random_gradients tests/metamorphic \
	tests/layers/additive tests/layers/additive_gradients tests/layers/mha_gradients \
	tests/robust/threads tests/robust/fork \
	tests/cli/malformed tests/cli/edges tests/cli/manners tests/offline/files \
	tests/cache/% tests/api/% tests/docs/% tests/unit/% examples/%,$(TESTS))

# Without a device: what computes on the host alone, or plans for GPUs that are not there.
unit_tests = $(filter tests/rules tests/docs/features tests/offline/files tests/unit/%,$(TESTS))

# The parts of their tests that are built; scripts need more of them.
chosen_programs = $(filter $(chosen_tests),$(check_PROGRAMS)) tests/solve_cases tests/emulated/probe \
	tests/offline/programs
unit_programs = $(filter $(unit_tests),$(check_PROGRAMS)) tests/offline/programs

.PHONY: build-choice check-choice check-unit count-check count-check-choice
build-choice: all $(check_LTLIBRARIES) $(chosen_programs)
check-choice: build-choice
	CLATTN_TEST_CHOICE='$(abs_srcdir)/tests/choice.txt' $(MAKE) check-TESTS TESTS='$(chosen_tests)'
	@$(srcdir)/scripts/slowest $(patsubst %,%.log,$(chosen_tests))
check-unit: $(unit_programs)
	OPENCL_LAYERS='' OCL_ICD_VENDORS=/nowhere $(MAKE) check-TESTS TESTS='$(unit_tests)'

# How many there are, for those who show how far they are.
count-check:
	@echo $(words $(TESTS))
count-check-choice:
	@echo $(words $(chosen_tests))
EXTRA_DIST += tests/choice.txt
