# Ranks that play clattn_ring.h's schedules, and, where MPI is, libclattn_mpi, which carries their messages by it.
# Included by the Makefile.am at the top.

# Whoever carries messages: tests do it without MPI.
noinst_LTLIBRARIES += libclattn_ranks.la
libclattn_ranks_la_SOURCES = \
	mpi/given.c \
	mpi/given.h \
	mpi/heads.c \
	mpi/heads.h \
	mpi/play.c \
	mpi/play.h \
	mpi/ranks.c \
	mpi/ranks.h \
	mpi/shards.c \
	mpi/shards.h \
	mpi/totals.c \
	mpi/totals.h

# What they read of structs.
tests_unit_ring_given_LDADD = libclattn_ranks.la $(LDADD)

# Ranks that are threads.
tests_api_ring_ranks_SOURCES = \
	tests/api/ring_direct.c \
	tests/api/ring_direct.h \
	tests/api/ring_mail.c \
	tests/api/ring_mail.h \
	tests/api/ring_ranks.c \
	tests/api/ring_shards.c \
	tests/api/ring_shards.h
tests_api_ring_ranks_LDADD = libclattn_ranks.la $(LDADD)

# What is installed where MPI is; linked with libclattn alone, as programs are.
if MPI
lib_LTLIBRARIES += libclattn_mpi.la
libclattn_mpi_la_SOURCES = mpi/clattn_mpi.c mpi/clattn_mpi.h
libclattn_mpi_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
libclattn_mpi_la_LIBADD = libclattn_ranks.la libclattn.la $(MPI_LIBS) -lpthread
libclattn_mpi_la_LDFLAGS = $(AM_LDFLAGS) $(MPI_VERSION_SCRIPT_LDFLAGS) -no-undefined -version-info 0:0:0
EXTRA_libclattn_mpi_la_DEPENDENCIES = mpi/libclattn_mpi.map
mpiincludedir = $(includedir)
mpiinclude_HEADERS = mpi/clattn_mpi.h
mpipkgconfigdir = $(pkgconfigdir)
mpipkgconfig_DATA = clattn-mpi.pc
endif

EXTRA_DIST += mpi/clattn_mpi.h mpi/libclattn_mpi.map
