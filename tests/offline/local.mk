# Kernels under the compilers of GPU vendors. Included by the Makefile.am at the top; programs are in tests/local.mk.

EXTRA_DIST += \
	tests/offline/amd \
	tests/offline/budget \
	tests/offline/budget.clh \
	tests/offline/budgets \
	tests/offline/builtins.clh \
	tests/offline/compilers \
	tests/offline/counting.py \
	tests/offline/cpu \
	tests/offline/instructions \
	tests/offline/intel \
	tests/offline/loops.awk \
	tests/offline/nvidia \
	tests/offline/nvidia.clh \
	tests/offline/places \
	tests/offline/play \
	tests/offline/rates \
	tests/offline/run \
	tests/offline/run-cpus \
	tests/offline/shares \
	tests/offline/to_assembly \
	tests/offline/ways.py

# Random calls, and gradients, on a device that plays the PTX of its programs.
player = \
	tests/offline/null_devices.c \
	tests/offline/null_driver.c \
	tests/offline/null_driver.h \
	tests/offline/player.c \
	tests/offline/player.h \
	tests/offline/player_programs.c \
	tests/offline/ptx.h \
	tests/offline/ptx_grid.c \
	tests/offline/ptx_lane.c \
	tests/offline/ptx_lane.h \
	tests/offline/ptx_text.c \
	tests/offline/ptx_unit.c \
	tests/offline/ptx_warp.c
tests_offline_played_SOURCES = $(player) tests/random_calls.c
tests_offline_played_gradients_SOURCES = $(player) tests/gradients/random_gradients.c
if TESTS_ENABLED
check_PROGRAMS += tests/offline/played tests/offline/played_gradients
endif

# What the compilers of GPU vendors make of the kernels, and the hot loops on CPUs; gets the compilers that are missing.
check-offline: tests/offline/build tests/offline/played tests/offline/played_gradients tests/offline/programs \
	tests/offline/rewrite
	srcdir='$(abs_srcdir)' builddir='$(abs_builddir)' '$(srcdir)/tests/offline/run'
	builddir='$(abs_builddir)' '$(srcdir)/tests/offline/run-cpus'
	builddir='$(abs_builddir)' '$(srcdir)/tests/offline/play'
