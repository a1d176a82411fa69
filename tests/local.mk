# make check. Included by the Makefile.am at the top. A test's exit status: 0 passed, 77 skipped, else
# failed; a Check program or a last line "N passed, N failed, N skipped" is counted in detail by ./check.

AM_CPPFLAGS += $(CHECK_CFLAGS)
LDADD = libclattn_core.la $(CHECK_LIBS)

# Device tests share one kernel cache and find their data in the source tree.
AM_TESTS_ENVIRONMENT = \
	POCL_CACHE_DIR=$${POCL_CACHE_DIR-$(abs_builddir)/pocl-cache}; export POCL_CACHE_DIR; \
	CK_VERBOSITY=$${CK_VERBOSITY-normal}; export CK_VERBOSITY; \
	srcdir='$(abs_srcdir)'; export srcdir; \
	builddir='$(abs_builddir)'; export builddir; \
	mkdir -p "$$POCL_CACHE_DIR";

# One source file each, of the same name; those that need a device come after those that do not.
test_programs =

# Scripts that need no build, and those that read the built library.
check_scripts = \
	tests/exports \
	tests/rules
EXTRA_DIST += $(check_scripts)

if TESTS_ENABLED
TESTS += $(check_scripts) $(test_programs)
check_PROGRAMS += $(test_programs)
else
check-local:
	@echo "configured with --disable-tests: nothing was tested" >&2; exit 1
endif

EXTRA_DIST += \
	tests/consumer/CMakeLists.txt \
	tests/consumer/consumer.c \
	tests/consumer/run

# An installed clattn serves programs outside the tree; distcheck runs this too.
installcheck-local:
	$(srcdir)/tests/consumer/run '$(DESTDIR)$(prefix)' '$(DESTDIR)$(libdir)'

clean-local:
	rm -rf pocl-cache
