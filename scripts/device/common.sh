# common.sh - what the scripts of a pack share (scripts/device_pack); they begin with it.
# shellcheck shell=bash

jobs=$(($(getconf _NPROCESSORS_ONLN) / 2))
[ "$jobs" -gt 0 ] || jobs=1

usage() { # the head of the script that runs
    sed -n '2,/^[^#]/{/^[^#]/d;s/^# \{0,1\}//;p}' "$0"
}

wrong() { # TEXT: wrong usage
    echo "$(basename "$0"): $1" >&2
    exit 2
}

is_number() { [[ $1 =~ ^[1-9][0-9]*$ ]]; }

# musec finds CUDA's libraries by the loader or in CUDA's own directory.  Where PyTorch alone brings
# one, its directory goes into LD_LIBRARY_PATH; PyTorch itself runs with what was set before.
set_before=${LD_LIBRARY_PATH-}
as_before() { LD_LIBRARY_PATH=$set_before "$@"; }

find_libraries() {
    local dirs name dir
    dirs=$(python3 -c 'import glob, nvidia
for place in nvidia.__path__: print("\n".join(glob.glob(place + "/*/lib")))' 2>/dev/null) || return 0
    for name in libcublasLt libcusolver libcudnn libnccl; do
        ldconfig -p 2>/dev/null | grep "$name\.so" >/dev/null && continue
        compgen -G "/usr/local/cuda/lib64/$name.so*" >/dev/null && continue
        for dir in $dirs; do
            compgen -G "$dir/$name.so*" >/dev/null || continue
            export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir
        done
    done
}
