# Tests of what goes wrong. tests/local.mk lists them; here is how their programs are linked.
#
#   calls that fail       faults, file_faults, choices; calls in fault_calls, layer_calls, file_steps*, what
#                         makes them fail in failing_*, and, of OpenCL, in ../icd/fault_layer
#   drivers, devices      broken_devices.sh, devices.sh
#   memory and its ends   guards, guard_cases.sh, guard_layers.sh, large_index, oclgrind.sh, memcheck
#   many at once, often   threads, thread_sanitizer, together, soak
#   processes             fork, kills, first_result

# With the library's allocations wrapped, so that they can fail, and programs, so that they are built once.
failing_memory = malloc calloc realloc strdup
kept_programs = clBuildProgram clCreateContext clCreateKernel clCreateProgramWithSource clGetProgramBuildInfo \
	clGetProgramInfo clReleaseProgram
tests_robust_faults_LDFLAGS = $(AM_LDFLAGS) $(failing_memory:%=-Wl,--wrap=%) $(kept_programs:%=-Wl,--wrap=%)
tests_robust_faults_SOURCES = \
	tests/robust/failing_memory.c \
	tests/robust/failing_memory.h \
	tests/robust/fault_calls.c \
	tests/robust/fault_calls.h \
	tests/robust/faults.c \
	tests/robust/kept_programs.c \
	tests/robust/kept_programs.h \
	tests/robust/layer_calls.c \
	tests/robust/layer_calls.h

tests_robust_soak_SOURCES = \
	tests/robust/layer_calls.c \
	tests/robust/layer_calls.h \
	tests/robust/soak.c

# File operations that fail, of the library and of the command, on the null driver.
failing_files = open openat mkdir rename renameat unlink unlinkat rmdir mkstemp stat lstat fstat fstatat fchmod \
	ftruncate flock utimensat opendir fdopendir readdir realpath getcwd readlink fsync close read write pread pwrite \
	open64 openat64 mkstemp64 stat64 lstat64 fstat64 fstatat64 ftruncate64 readdir64 pread64 pwrite64
tests_robust_file_faults_LDFLAGS = $(tests_offline_programs_LDFLAGS) $(failing_files:%=-Wl,--wrap=%)
tests_robust_file_faults_SOURCES = \
	$(null_driver_sources) \
	tests/robust/failing_files.c \
	tests/robust/failing_files.h \
	tests/robust/file_faults.c \
	tests/robust/file_steps.c \
	tests/robust/file_steps.h \
	tests/robust/file_steps_command.c

tests_robust_threads_SOURCES = \
	tests/robust/layer_bits.c \
	tests/robust/layer_bits.h \
	tests/robust/layer_calls.c \
	tests/robust/layer_calls.h \
	tests/robust/threads.c

# Processes that are killed while they write programs.
tests_robust_kills_LDFLAGS = $(tests_offline_programs_LDFLAGS)
tests_robust_kills_SOURCES = \
	$(null_driver_sources) \
	tests/robust/kills.c

tests_robust_choices_LDFLAGS = $(AM_LDFLAGS) $(failing_memory:%=-Wl,--wrap=%) -Wl,--wrap=CLBlastSgemm
tests_robust_choices_SOURCES = \
	tests/robust/choices.c \
	tests/robust/failing_memory.c \
	tests/robust/failing_memory.h
