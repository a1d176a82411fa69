# CLATTN_TRY_FLAGS(VARIABLE, FLAGS)
# Appends each of FLAGS that the compiler takes, with the headers of C, to VARIABLE.
AC_DEFUN([CLATTN_TRY_FLAGS], [
    for clattn_flag in $2; do
        AC_MSG_CHECKING([whether $CC takes $clattn_flag])
        clattn_saved_cflags=$CFLAGS
        CFLAGS="$CFLAGS -Werror $clattn_flag"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <stdlib.h>]])],
                          [AC_MSG_RESULT([yes]); $1="$$1 $clattn_flag"],
                          [AC_MSG_RESULT([no])])
        CFLAGS=$clattn_saved_cflags
    done
])

# CLATTN_TRY_LINK_FLAGS(VARIABLE, FLAGS)
# Adds to VARIABLE those of FLAGS that the linker takes.
AC_DEFUN([CLATTN_TRY_LINK_FLAGS], [
    for clattn_flag in $2; do
        AC_MSG_CHECKING([whether programs link with $clattn_flag])
        clattn_saved_cflags=$CFLAGS
        clattn_saved_ldflags=$LDFLAGS
        CFLAGS="$CFLAGS $HARDENING_PROGRAM_CFLAGS -Werror"
        LDFLAGS="$LDFLAGS $clattn_flag"
        AC_LINK_IFELSE([AC_LANG_PROGRAM()],
                       [AC_MSG_RESULT([yes]); $1="$$1 $clattn_flag"],
                       [AC_MSG_RESULT([no])])
        CFLAGS=$clattn_saved_cflags
        LDFLAGS=$clattn_saved_ldflags
    done
])

# CLATTN_SANITIZERS
# --enable-sanitizers: stops at the first report, so that a test that makes one fails.
AC_DEFUN([CLATTN_SANITIZERS], [
    AC_ARG_ENABLE([sanitizers],
        [AS_HELP_STRING([--enable-sanitizers@<:@=LIST@:>@],
                        [build with these sanitizers @<:@address,undefined@:>@])],
        [], [enable_sanitizers=no])
    AS_IF([test "x$enable_sanitizers" = xyes], [enable_sanitizers=address,undefined])
    SANITIZER_CFLAGS=
    AS_IF([test "x$enable_sanitizers" != xno], [
        SANITIZER_CFLAGS="-fsanitize=$enable_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer"
        AC_MSG_CHECKING([whether programs link with $SANITIZER_CFLAGS])
        clattn_saved_cflags=$CFLAGS
        CFLAGS="$CFLAGS $SANITIZER_CFLAGS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR(m4_normalize([--enable-sanitizers=$enable_sanitizers: $CC cannot link with it; with clang,
                                        install its runtime (Debian: libclang-rt-dev), or use gcc]))])
        CFLAGS=$clattn_saved_cflags
    ])
    AM_CONDITIONAL([SANITIZERS], [test "x$enable_sanitizers" != xno])
    AC_SUBST([SANITIZER_CFLAGS])
])

# CLATTN_VERSION_SCRIPT
# VERSION_SCRIPT_LDFLAGS: how the linker gives what the shared library exports the version in src/libclattn.map. Only
# ELF has versions of symbols: mingw's linker reads the file and makes nothing of it, that of macOS does not know it.
AC_DEFUN([CLATTN_VERSION_SCRIPT], [
    VERSION_SCRIPT_LDFLAGS=
    AC_MSG_CHECKING([whether the linker takes a version script])
    clattn_saved_ldflags=$LDFLAGS
    LDFLAGS="$LDFLAGS -Wl,--version-script=$srcdir/src/libclattn.map"
    clattn_version_script=no
    AS_CASE([$host_os], [darwin* | mingw* | cygwin*], [],
            [AC_LINK_IFELSE([AC_LANG_PROGRAM()], [clattn_version_script=yes])])
    AC_MSG_RESULT([$clattn_version_script])
    LDFLAGS=$clattn_saved_ldflags
    AS_IF([test "$clattn_version_script" = yes],
          [VERSION_SCRIPT_LDFLAGS='-Wl,--version-script=$(srcdir)/src/libclattn.map'])
    AC_SUBST([VERSION_SCRIPT_LDFLAGS])
    AM_CONDITIONAL([VERSION_SCRIPT], [test "$clattn_version_script" = yes])
])

# CLATTN_HARDENING
# What makes a defect harder to use: full RELRO, no executable stack, stack protector, checked string functions, PIE for
# programs. By default, wherever compiler and linker take it; after CLATTN_SANITIZERS, which check more themselves.
AC_DEFUN([CLATTN_HARDENING], [
    AC_ARG_ENABLE([hardening],
        [AS_HELP_STRING([--disable-hardening],
                        [leave out full RELRO, stack protector, _FORTIFY_SOURCE and PIE])])
    HARDENING_CFLAGS= HARDENING_LDFLAGS= HARDENING_PROGRAM_CFLAGS= HARDENING_PROGRAM_LDFLAGS=
    AS_IF([test "x$enable_hardening" != xno && test "x$enable_sanitizers" = xno], [
        CLATTN_TRY_FLAGS([HARDENING_CFLAGS], [-fstack-protector-strong -fstack-clash-protection])
        # Where the compiler does not optimise, headers refuse it; who set a level means that one.
        AS_CASE([" $CPPFLAGS $CFLAGS "], [*_FORTIFY_SOURCE*], [],
                [CLATTN_TRY_FLAGS([HARDENING_CFLAGS], ["-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3"])
                 AS_CASE([$HARDENING_CFLAGS], [*_FORTIFY_SOURCE*], [],
                         [CLATTN_TRY_FLAGS([HARDENING_CFLAGS], ["-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"])])])
        CLATTN_TRY_LINK_FLAGS([HARDENING_LDFLAGS], [-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack])
        CLATTN_TRY_FLAGS([HARDENING_PROGRAM_CFLAGS], [-fPIE])
        CLATTN_TRY_LINK_FLAGS([HARDENING_PROGRAM_LDFLAGS], [-pie])
    ])
    AC_SUBST([HARDENING_CFLAGS])
    AC_SUBST([HARDENING_LDFLAGS])
    AC_SUBST([HARDENING_PROGRAM_CFLAGS])
    AC_SUBST([HARDENING_PROGRAM_LDFLAGS])
])
