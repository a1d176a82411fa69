# Attention over the ranks of MPI: a program a page, run by tests/mpi/run. Included by the Makefile.am at the top.
mpi_examples = \
	examples/mpi/decode \
	examples/mpi/sequence
examples_mpi_decode_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_decode_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/mpi
examples_mpi_decode_LDADD = libclattn_mpi.la libclattn.la $(MPI_LIBS) -lm
examples_mpi_sequence_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_sequence_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/mpi
examples_mpi_sequence_LDADD = libclattn_mpi.la libclattn.la $(MPI_LIBS) -lm

if MPI
check_PROGRAMS += $(mpi_examples)
endif
TESTS += tests/mpi/run
TESTS += tests/mpi/broken
TESTS += tests/mpi/scale
EXTRA_DIST += tests/mpi/broken tests/mpi/mpirun tests/mpi/run tests/mpi/scale

nobase_dist_doc_DATA += \
	examples/mpi/decode.c \
	examples/mpi/mpi_example.h \
	examples/mpi/sequence.c
