# OpenCL layers, loaded by the loader into the programs above.
layers = \
	tests/icd/broken_layer.la \
	tests/icd/fault_layer.la \
	tests/icd/guard_layer.la \
	tests/icd/large_layer.la \
	tests/icd/mutant_layer.la \
	tests/icd/program_layer.la \
	tests/icd/quick_layer.la \
	tests/icd/small_layer.la
# The loader looks two functions up in them, so nothing is hidden.
layer_cflags = $(WARNING_CFLAGS) $(SANITIZER_CFLAGS)
layer_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_icd_broken_layer_la_CFLAGS = $(layer_cflags)
tests_icd_broken_layer_la_LDFLAGS = $(layer_ldflags)
tests_icd_broken_layer_la_LIBADD =
tests_icd_fault_layer_la_CFLAGS = $(layer_cflags)
tests_icd_fault_layer_la_LDFLAGS = $(layer_ldflags)
tests_icd_fault_layer_la_SOURCES = \
	tests/icd/fault_layer.c tests/icd/fault_layer.h
tests_icd_fault_layer_la_LIBADD =
tests_icd_guard_layer_la_CFLAGS = $(layer_cflags)
tests_icd_guard_layer_la_LDFLAGS = $(layer_ldflags)
tests_icd_guard_layer_la_LIBADD =
tests_icd_large_layer_la_CFLAGS = $(layer_cflags)
tests_icd_large_layer_la_LDFLAGS = $(layer_ldflags)
tests_icd_large_layer_la_LIBADD =
tests_icd_mutant_layer_la_CFLAGS = $(layer_cflags)
tests_icd_mutant_layer_la_LDFLAGS = $(layer_ldflags)
tests_icd_mutant_layer_la_LIBADD =
tests_icd_program_layer_la_CFLAGS = $(layer_cflags)
tests_icd_program_layer_la_LDFLAGS = $(layer_ldflags)
tests_icd_program_layer_la_SOURCES = \
	tests/icd/icd_entry.h \
	tests/icd/program_layer.c \
	tests/icd/program_layer.h
tests_icd_program_layer_la_LIBADD =
tests_icd_quick_layer_la_CFLAGS = $(layer_cflags)
tests_icd_quick_layer_la_LDFLAGS = $(layer_ldflags)
tests_icd_quick_layer_la_LIBADD =
tests_icd_quick_layer_la_SOURCES = \
	tests/icd/few_builtins.c tests/icd/few_builtins.h \
	tests/icd/icd_entry.h \
	tests/icd/quick_layer.c
nodist_tests_icd_quick_layer_la_SOURCES = tests/icd/taken_builtins.c

tests/icd/taken_builtins.c: $(KERNEL_FILES) tests/icd/take_builtins scripts/embed_files Makefile
	$(AM_V_GEN)$(MKDIR_P) tests/icd && cd $(srcdir) && \
	tests/icd/take_builtins $(KERNEL_FILES) >"$(abs_builddir)/tests/icd/taken_builtins.h" && \
	scripts/embed_files taken_builtins "$(abs_builddir)/tests/icd" "$(abs_builddir)/tests/icd/taken_builtins.h" \
		>"$(abs_builddir)/$@.new" && \
	mv "$(abs_builddir)/$@.new" "$(abs_builddir)/$@"
CLEANFILES += tests/icd/taken_builtins.c tests/icd/taken_builtins.h
EXTRA_DIST += tests/icd/take_builtins
tests_icd_small_layer_la_CFLAGS = $(layer_cflags)
tests_icd_small_layer_la_LDFLAGS = $(layer_ldflags)
tests_icd_small_layer_la_LIBADD =
