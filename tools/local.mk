# The command clattn. Included by the Makefile.am at the top.

if TOOL
bin_PROGRAMS += clattn
dist_man_MANS = man/clattn.1
endif

clattn_CPPFLAGS = $(AM_CPPFLAGS) $(CAIRO_CFLAGS) $(CJSON_CFLAGS)
clattn_LDADD = libclattn_core.la $(CAIRO_LIBS) $(CJSON_LIBS)
clattn_SOURCES = \
	tools/failure.c \
	tools/failure.h \
	tools/files.c \
	tools/files.h \
	tools/npy.c \
	tools/npy.h \
	tools/safetensors.c \
	tools/safetensors.h \
	tools/tensor.c \
	tools/tensor.h
