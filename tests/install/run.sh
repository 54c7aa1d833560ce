#!/usr/bin/env bash
# run.sh - a program outside the tree can use what was built.
#
#   tests/install/run.sh BUILD_DIR
#
# Installs into a staging directory, then builds clip_example.c there: through pkg-config, shared
# and static, and through the CMake package.  Checks the exported names and compiles the header in
# several languages.  CC and CXX choose the compilers.
set -euo pipefail

build=$(cd "${1:?usage: run.sh BUILD_DIR}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}
cxx=${CXX:-c++}
prefix=/opt/musec
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset MAKEFLAGS CFLAGS LDFLAGS LD_LIBRARY_PATH

fail()
{
    echo "install: $*" >&2
    exit 1
}

DESTDIR=$tmp/stage cmake --install "$build" --prefix "$prefix" >"$tmp/install.log"
cp -r "$here" "$tmp/outside"
cd "$tmp/outside"
root=$tmp/stage$prefix
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name musec.pc)")
libdir=$(dirname "$PKG_CONFIG_PATH")

# ---- installed files ----

[ -x "$root/bin/musec" ] || fail "no program"
for header in musec optim dlpack; do
    [ -f "$root/include/musec/$header.h" ] || fail "no $header.h"
done
[ -L "$libdir/libmusec.so" ] || fail "no libmusec.so"
[ -f "$root/share/doc/musec/LICENSE" ] || fail "no licence"
[ -f "$root/share/man/man1/musec.1" ] || fail "no manual page"
[ -f "$root/share/musec/sources.json" ] || fail "no list of data sets"
bash -n "$root/share/bash-completion/completions/musec" || fail "no bash completion"
grep -q '^#compdef musec' "$root/share/zsh/site-functions/_musec" || fail "no zsh completion"
grep -q '^complete -c musec' "$root/share/fish/vendor_completions.d/musec.fish" || fail "no fish completion"
# relative links of the documents: "](target)", without what follows a '#', outside of code
links=0
while IFS= read -r document; do
    while IFS= read -r target; do
        links=$((links + 1))
        [ -e "$(dirname "$document")/$target" ] ||
            fail "${document#"$root/"} links to $target, which is not installed"
    done < <(awk '/^ *```/ { code = !code } !code' "$document" | grep -ohE '\]\([^)# ]+' |
        sed 's/^](//' | grep -v '://')
done < <(find "$root/share/doc/musec" -name '*.md')
[ "$links" -ge 40 ] || fail "only $links links in the documents"
version=$(pkg-config --modversion musec)
[ -f "$libdir/libmusec.so.$version" ] || fail "musec.pc says $version, the library does not"
"$root/bin/musec" --version | grep -qF "$version" || fail "musec --version does not say $version"
if grep -rIlF "$build" "$root" --include='*.pc' --include='*.cmake'; then
    fail "an installed file names the build directory"
fi

# ---- exported names ----

foreign=$(nm -D --defined-only "$libdir/libmusec.so" | awk '$3 !~ /^musec_/ { print $3 }')
[ -z "$foreign" ] || fail "libmusec.so exports $foreign"
foreign=$(nm -g --defined-only "$libdir/libmusec.a" | awk 'NF == 3 && $3 !~ /^musec_/ { print $3 }')
[ -z "$foreign" ] || fail "libmusec.a exports $foreign"
shared=$(nm -D --defined-only "$libdir/libmusec.so" | awk '{ print $3 }' | sort)
static=$(nm -g --defined-only "$libdir/libmusec.a" | awk 'NF == 3 { print $3 }' | sort)
[ "$shared" = "$static" ] || fail "libmusec.so and libmusec.a export different names"
for name in $(grep -ohE '\bmusec_[a-z0-9_]+\(' "$root"/include/musec/*.h | tr -d '(' | sort -u); do
    grep -qx "$name" <<<"$shared" || fail "the header speaks of $name, the library lacks it"
done

# ---- programs ----

# shellcheck disable=SC2046 # words on purpose
"$cc" -o shared clip_example.c $(pkg-config --cflags --libs musec) -lm
LD_LIBRARY_PATH=$libdir ./shared

# shellcheck disable=SC2046
"$cc" -o sysroot clip_example.c \
    $(PKG_CONFIG_SYSROOT_DIR=$tmp/stage pkg-config --cflags --libs musec) -lm
LD_LIBRARY_PATH=$libdir ./sysroot

rest=$(pkg-config --static --libs-only-l musec | sed 's/-lmusec//')
# shellcheck disable=SC2046,SC2086
"$cc" -o static clip_example.c $(pkg-config --cflags musec) "$libdir/libmusec.a" $rest
./static

everything=yes # is there a static library of each dependency?
for name in c openblas jansson gfortran; do
    [ -f "$("$cc" -print-file-name=lib$name.a)" ] || everything=no
done
if [ "$everything" = yes ]; then
    # shellcheck disable=SC2046
    "$cc" -static -o everything clip_example.c $(pkg-config --static --cflags --libs musec) \
        2>link.log || fail "$(cat link.log)"
    ./everything
fi

cmake -S . -B cmake-build -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$root" >cmake.log
cmake --build cmake-build >>cmake.log || fail "$(cat cmake.log)"
cmake-build/clip_example

# ---- the header in other languages ----

for std in c99 c11 c17; do
    "$cc" -std=$std -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$root/include" header.c
done
if ! command -v "$cxx" >/dev/null; then
    echo "skipped: the header as C++: there is no C++ compiler"
    exit 77
fi
"$cxx" -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$root/include" header.c
echo "install: as expected"
