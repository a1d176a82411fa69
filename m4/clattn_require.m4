# CLATTN_REQUIRE(PREFIX, PROBE, PURPOSE)
# Finds the library of a line of scripts/packages.txt, PROBE being its first column, such as
# library:clblast>=1.5.2, and sets PREFIX_CFLAGS and PREFIX_LIBS. Where it is missing, configure stops and
# names the packages to install.
AC_DEFUN([CLATTN_REQUIRE], [
    PKG_CHECK_MODULES([$1], m4_bpatsubst(m4_bpatsubst([[$2]], [library:]), [>=], [ >= ]), [],
                      [CLATTN_MISSING([$2], [$3])])
])

# CLATTN_MISSING(PROBE, PURPOSE)
AC_DEFUN([CLATTN_MISSING], [
    clattn_packages=`awk -v probe='$1' '$[]1 == probe {
        print "    Debian, Ubuntu  apt-get install " $[]3
        print "    Fedora          dnf install " $[]4
        print "    Arch            pacman -S " $[]5
        print "    macOS           brew install " $[]6
    }' "$srcdir/scripts/packages.txt" | grep -v ' -$'`
    AC_MSG_ERROR([m4_bpatsubst([$1], [^[a-z]*:]) not found: needed for $2. Install it and run configure again:
$clattn_packages
or run ./quickstart, which installs all that is needed.])
])
