# Kernels under the compilers of GPU vendors. Included by the Makefile.am at the top; programs are in tests/local.mk.

EXTRA_DIST += \
	tests/offline/amd \
	tests/offline/budget \
	tests/offline/budget.clh \
	tests/offline/budgets \
	tests/offline/builtins.clh \
	tests/offline/compilers \
	tests/offline/cpu \
	tests/offline/instructions \
	tests/offline/intel \
	tests/offline/loops.awk \
	tests/offline/nvidia \
	tests/offline/nvidia.clh \
	tests/offline/places \
	tests/offline/rates \
	tests/offline/run \
	tests/offline/run-cpus \
	tests/offline/shares \
	tests/offline/to_assembly

# What the compilers of GPU vendors make of the kernels, and the hot loops on CPUs; gets the compilers that are missing.
check-offline: tests/offline/build tests/offline/programs tests/offline/rewrite
	srcdir='$(abs_srcdir)' builddir='$(abs_builddir)' '$(srcdir)/tests/offline/run'
	builddir='$(abs_builddir)' '$(srcdir)/tests/offline/run-cpus'
