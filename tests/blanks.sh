#!/bin/sh
# DESTDIR and prefix with a blank, of which libtool makes two folders, are refused in words before anything is written.
# What a clone in such a folder is told: tests/quickstart.
set -u
: "${srcdir:=$(dirname "$0")/..}" "${builddir:=.}"
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MAKELEVEL MFLAGS # of the make that runs this

# refuses VARIABLE: an installation whose VARIABLE has a blank.
# shellcheck disable=SC2317 # called by verdict
refuses() {
    ! said=$(${MAKE:-make} -C "$builddir" install-exec "$1=$work/a b" 2>&1) &&
        echo "$said" | grep -q "DESTDIR and prefix may have no blanks.*$1='$work/a b'" &&
        [ -z "$(ls "$work")" ]
}

verdict "DESTDIR" refuses DESTDIR
verdict "prefix" refuses prefix
finish
