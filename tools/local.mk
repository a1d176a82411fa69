# The command clattn. Included by the Makefile.am at the top.

# All of it but main, for the tests too.
libclattn_tool_la_CPPFLAGS = $(AM_CPPFLAGS) $(CAIRO_CFLAGS) $(CJSON_CFLAGS)
libclattn_tool_la_LIBADD = $(CAIRO_LIBS) $(CJSON_LIBS)
libclattn_tool_la_SOURCES = \
	tools/attention.c \
	tools/attention.h \
	tools/attention_extras.c \
	tools/attention_extras.h \
	tools/check.c \
	tools/check.h \
	tools/cmd_devices.c \
	tools/cmd_explain.c \
	tools/cmd_run.c \
	tools/commands.h \
	tools/failure.c \
	tools/failure.h \
	tools/files.c \
	tools/files.h \
	tools/heat.c \
	tools/heat.h \
	tools/inputs.c \
	tools/inputs.h \
	tools/layout.c \
	tools/layout.h \
	tools/library.c \
	tools/library.h \
	tools/multihead.c \
	tools/multihead.h \
	tools/npy.c \
	tools/npy.h \
	tools/option_list.h \
	tools/options.c \
	tools/options.h \
	tools/plot.c \
	tools/plot.h \
	tools/problem_options.c \
	tools/problem_options.h \
	tools/progress.c \
	tools/progress.h \
	tools/results.c \
	tools/results.h \
	tools/safetensors.c \
	tools/safetensors.h \
	tools/show.c \
	tools/show.h \
	tools/tensor.c \
	tools/tensor.h \
	tools/utf8.c \
	tools/utf8.h

clattn_LDADD = libclattn_tool.la libclattn_core.la
clattn_SOURCES = \
	tools/main.c

if TOOL
noinst_LTLIBRARIES += libclattn_tool.la
bin_PROGRAMS += clattn
dist_man_MANS = man/clattn.1
endif
