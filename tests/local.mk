# make check. Included by the Makefile.am at the top. A test's exit status: 0 passed, 77 skipped, else
# failed; a Check program or a last line "N passed, N failed, N skipped" is counted in detail by ./check.

AM_CPPFLAGS += $(CHECK_CFLAGS)
LDADD = libclattn_test.la libclattn_tool.la libclattn_core.la $(CHECK_LIBS)

# What test programs share.
libclattn_test_la_SOURCES = \
	tests/support/case_file.c \
	tests/support/case_file.h \
	tests/support/case_layout.c \
	tests/support/case_layout.h \
	tests/support/device_call.c \
	tests/support/device_call.h \
	tests/support/naive.c \
	tests/support/naive.h \
	tests/support/random.c \
	tests/support/random.h \
	tests/support/random_call.c \
	tests/support/random_call.h \
	tests/support/random_values.c \
	tests/support/random_values.h \
	tests/support/test_call.c \
	tests/support/test_call.h \
	tests/support/tolerance.c \
	tests/support/tolerance.h

# One source file each, of the same name; those that need no device first.
test_programs = \
	tests/random_calls

# Scripts; they read srcdir and builddir.
test_scripts = \
	tests/exports \
	tests/rules \
	tests/run_cases.sh
EXTRA_DIST += $(test_scripts)

if TESTS_ENABLED
check_LTLIBRARIES += libclattn_test.la
noinst_PROGRAMS += tests/solve_cases
check_PROGRAMS += $(test_programs)
TESTS += $(test_scripts) $(test_programs)
else
check-local:
	@echo "configured with --disable-tests: nothing was tested" >&2; exit 1
endif

# Device tests share one kernel cache.
AM_TESTS_ENVIRONMENT = \
	POCL_CACHE_DIR=$${POCL_CACHE_DIR-$(abs_builddir)/pocl-cache}; export POCL_CACHE_DIR; \
	CK_VERBOSITY=$${CK_VERBOSITY-normal}; export CK_VERBOSITY; \
	srcdir='$(abs_srcdir)'; export srcdir; \
	builddir='$(abs_builddir)'; export builddir; \
	mkdir -p "$$POCL_CACHE_DIR";

# The cases with their goldens, as a whole.
EXTRA_DIST += tests/cases

EXTRA_DIST += \
	tests/consumer/CMakeLists.txt \
	tests/consumer/consumer.c \
	tests/consumer/run

# An installed clattn serves programs outside the tree; distcheck runs this too.
installcheck-local:
	$(srcdir)/tests/consumer/run '$(DESTDIR)$(prefix)' '$(DESTDIR)$(libdir)'

clean-local:
	rm -rf pocl-cache
