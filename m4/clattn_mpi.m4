# CLATTN_MPI
# Where mpicc is, libclattn_mpi is built, with the options that mpicc says it adds (Open MPI and MPICH both have -show):
# MPI_CFLAGS, MPI_LIBS. The other libraries know nothing of it.
AC_DEFUN([CLATTN_MPI], [
    AC_ARG_WITH([mpi], [AS_HELP_STRING([--without-mpi], [leave out libclattn_mpi, also where mpicc is])])
    AC_CHECK_PROGS([MPICC], [mpicc], [no])
    clattn_mpi=no
    MPI_CFLAGS=
    MPI_LIBS=
    AS_IF([test "x$with_mpi" != xno && test "$MPICC" != no && test "x$cross_compiling" != xyes], [
        clattn_words=`$MPICC -show 2>/dev/null | tr ' ' '\n'`
        MPI_CFLAGS=`echo "$clattn_words" | sed -n 's/^-I/-isystem /p; /^-pthread$/p' | tr '\n' ' '`
        MPI_LIBS=`echo "$clattn_words" | sed -n '/^-L/p; /^-l/p' | tr '\n' ' '`
        clattn_saved_cflags=$CFLAGS clattn_saved_libs=$LIBS
        CFLAGS="$CFLAGS $MPI_CFLAGS" LIBS="$LIBS $MPI_LIBS"
        AC_MSG_CHECKING([whether programs link with MPI])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[MPI_Finalize();]])], [clattn_mpi=$MPICC])
        AC_MSG_RESULT([$clattn_mpi])
        CFLAGS=$clattn_saved_cflags LIBS=$clattn_saved_libs
    ])
    AS_IF([test "x$with_mpi" = xyes && test "$clattn_mpi" = no],
          [CLATTN_MISSING([command:mpicc], [libclattn_mpi (--without-mpi does without)])])
    AC_SUBST([MPI_CFLAGS])
    AC_SUBST([MPI_LIBS])
    MPI_VERSION_SCRIPT_LDFLAGS=
    AS_IF([test -n "$VERSION_SCRIPT_LDFLAGS"],
          [MPI_VERSION_SCRIPT_LDFLAGS='-Wl,--version-script=$(srcdir)/mpi/libclattn_mpi.map'])
    AC_SUBST([MPI_VERSION_SCRIPT_LDFLAGS])
    AM_CONDITIONAL([MPI], [test "$clattn_mpi" != no])
])
