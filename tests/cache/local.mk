# How tests of what is kept on disk are linked; tests/local.mk lists them.

# As if of another version, on a device with many extensions.
tests_cache_keys_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clattn_version,--wrap=clGetDeviceInfo

# Between the library and the driver.
tests_cache_rehearsals_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clEnqueueNDRangeKernel \
	-Wl,--wrap=clGetKernelWorkGroupInfo
tests_cache_rehearsals_SOURCES = \
	tests/cache/rehearsals.c \
	tests/robust/layer_calls.c \
	tests/robust/layer_calls.h
