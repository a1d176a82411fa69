# CLATTN_TRY_FLAGS(VARIABLE, FLAGS)
# Appends each of FLAGS that the compiler takes to VARIABLE.
AC_DEFUN([CLATTN_TRY_FLAGS], [
    for clattn_flag in $2; do
        AC_MSG_CHECKING([whether $CC takes $clattn_flag])
        clattn_saved_cflags=$CFLAGS
        CFLAGS="$CFLAGS -Werror $clattn_flag"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
                          [AC_MSG_RESULT([yes]); $1="$$1 $clattn_flag"],
                          [AC_MSG_RESULT([no])])
        CFLAGS=$clattn_saved_cflags
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
             AC_MSG_ERROR([--enable-sanitizers=$enable_sanitizers: $CC cannot link with it; with clang, install its runtime (Debian: libclang-rt-14-dev), or use gcc])])
        CFLAGS=$clattn_saved_cflags
    ])
    AM_CONDITIONAL([SANITIZERS], [test "x$enable_sanitizers" != xno])
    AC_SUBST([SANITIZER_CFLAGS])
])
