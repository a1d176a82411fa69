# CLATTN_OPENCL
# Finds the OpenCL headers and loader: by pkg-config, else as a plain library, else macOS's framework.
# Sets OPENCL_CFLAGS and OPENCL_LIBS, and for clattn.pc CLATTN_PC_REQUIRES and CLATTN_PC_LIBS.
AC_DEFUN([CLATTN_OPENCL], [
    CLATTN_PC_REQUIRES=
    CLATTN_PC_LIBS=
    PKG_CHECK_MODULES([OPENCL], [OpenCL], [CLATTN_PC_REQUIRES=OpenCL], [
        clattn_saved_libs=$LIBS
        AC_SEARCH_LIBS([clGetPlatformIDs], [OpenCL], [OPENCL_LIBS=$ac_cv_search_clGetPlatformIDs], [
            AC_MSG_CHECKING([for the OpenCL framework])
            LIBS="$clattn_saved_libs -framework OpenCL"
            AC_LINK_IFELSE([AC_LANG_CALL([], [clGetPlatformIDs])],
                           [AC_MSG_RESULT([yes]); OPENCL_LIBS="-framework OpenCL"],
                           [AC_MSG_RESULT([no]); CLATTN_MISSING([library:OpenCL], [the OpenCL loader])])
        ])
        LIBS=$clattn_saved_libs
        CLATTN_PC_LIBS=$OPENCL_LIBS
    ])
    clattn_saved_cppflags=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $OPENCL_CFLAGS -DCL_TARGET_OPENCL_VERSION=120"
    AC_CHECK_HEADERS([CL/cl.h OpenCL/cl.h], [clattn_have_cl_h=yes; break])
    AS_IF([test "x$clattn_have_cl_h" != xyes], [CLATTN_MISSING([header:CL/cl.h], [the OpenCL headers])])
    CPPFLAGS=$clattn_saved_cppflags
    AC_SUBST([CLATTN_PC_REQUIRES])
    AC_SUBST([CLATTN_PC_LIBS])
])
