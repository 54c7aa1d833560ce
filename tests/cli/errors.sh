# errors.sh - invalid inputs and outputs: one clear line, exit 1, nothing half-written, and an old output
# file stays as it is.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

# refuses PATTERN IN ARGUMENT...: clip of IN fails, with no OUT before and with an old one.
refuses() {
    local pattern=$1 in=$2
    shift 2
    rm -f out.npy
    keeps_files fails 1 "$pattern" clip "$in" out.npy "$@"
    echo 'an old result' >out.npy
    fails 1 "$pattern" clip "$in" out.npy "$@"
    check "clip $in keeps the old output" test "$(cat out.npy)" = 'an old result'
    rm -f out.npy
}
# both PATTERN FILE: clip and spectrum refuse it with the same message.
both() {
    refuses "$1" "$2" --threshold 1
    fails 1 "$1" spectrum "$2"
}

npy good.npy '<f4' '(2, 2)' False "$f4_3$f4_0$f4_0$f4_1"

# not finite, and where
npy nan.npy '<f4' '(2, 3)' False "$f4_1$f4_2$f4_3$f4_1$f4_nan$f4_inf"
npy inf.npy '<f4' '(2, 2, 2)' False "$f4_1$f4_2$f4_3$f4_1$f4_1$f4_2$f4_inf$f4_1"
npy minf.npy '<f8' '(2, 2)' False "$f8_minf$f8_2$f8_3$f8_1"
npy nan8.npy '<f8' '(2, 2)' True "$f8_1$f8_nan$f8_3$f8_1" # Fortran order: element [1, 0]
both 'nan.npy: element \[1, 1\] is nan' nan.npy
both 'inf.npy: element \[1, 1, 0\] is inf' inf.npy
both 'minf.npy: element \[0, 0\] is -inf' minf.npy
both 'nan8.npy: element \[1, 0\] is nan' nan8.npy
for op in hard hard-fast hard-accurate soft ssc paper7 fast accurate sharp sharp-fast sharp-accurate polar ns5; do
    refuses 'element \[1, 1\] is nan' nan.npy --threshold 1 --op "$op"
done
npy huge.npy '<f8' '(1, 2)' False "$f8_1$f8_huge"
refuses 'element \[0, 1\] is 8.98.*too large for f32; use --dtype f64' huge.npy --dtype f32 \
    --threshold 1

# values out of range
for d in 0 -1 -0.0 -1e-300; do
    refuses "--threshold must be above 0, not -?[01]" good.npy --threshold "$d"
done
refuses '--threshold must be above 0' good.npy --threshold -1 --op polar
refuses '--iters must be 1 to 100, not 0' good.npy --op ns5 --iters 0
refuses '--iters must be 1 to 100, not -1' good.npy --op ssc --threshold 1 --iters -1
refuses '--iters must be 1 to 100, not 4294967297' good.npy --op ns5 --iters 4294967297
refuses '--tol must be 1e-12 to 0.5, not 0' good.npy --op accurate --threshold 1 --tol 0
refuses '--tol must be 1e-12 to 0.5, not 2' good.npy --op accurate --threshold 1 --tol 2
refuses 'no device "abacus"; this build has .*cpu' good.npy --threshold 1 --device abacus
fails 1 '--threshold must be above 0' spectrum good.npy --threshold 0
fails 1 '--top must be 0 or more' spectrum good.npy --top -2
fails 1 '--estimate must be 2 steps or more' spectrum good.npy --estimate 1
fails 1 'no device "abacus"' spectrum good.npy --device abacus
fails 1 'no device "abacus"' info --device abacus
fails 1 'device' bench ops --quick --device abacus
fails 1 'device' bench step --quick --device abacus
fails 1 '--repeats must be 0 or more' bench ops --repeats -1

# shapes
npy d0.npy '<f4' '()' False "$f4_1"
npy d1.npy '<f4' '(2,)' False "$f4_1$f4_2"
npy d4.npy '<f4' '(1, 1, 1, 2)' False "$f4_1$f4_2"
npy e2.npy '<f4' '(0, 3)' False ''
npy e3.npy '<f8' '(2, 2, 0)' False ''
npy stack0.npy '<f4' '(0, 2, 2)' False ''
both 'd0.npy: the array has 0 dimensions' d0.npy
both 'd1.npy: the array has 1 dimension;' d1.npy
refuses 'd4.npy: the array has 4 dimensions' d4.npy --threshold 1
both 'e2.npy: the array is empty \(dimension 0 is 0\)' e2.npy
both 'e3.npy: the array is empty \(dimension 2 is 0\)' e3.npy
both 'stack0.npy: the array is empty' stack0.npy

# files that are not .npy, or of unsupported types
: >empty.npy
both 'empty.npy: ' empty.npy
head -c 5 good.npy >magic.npy
head -c 9 good.npy >length.npy
head -c 60 good.npy >header.npy
head -c 140 good.npy >data.npy
for f in magic length header data; do both "$f.npy: .*truncated" "$f.npy"; done
{ cat good.npy; printf 'x'; } >long.npy
both 'long.npy: .*too long' long.npy
echo 'not an array' >text.npy
both 'text.npy: .*not a .npy' text.npy
npy int.npy '<i8' '(1, 1)' False "$f8_1"
npy complex.npy '<c16' '(1, 1)' False "$f8_1$f8_1"
npy big.npy '>f8' '(1, 1)' False "$f8_1"
npy half.npy '<f2' '(1, 1)' False '\0\x3c'
for t in i8 c16 f2; do
    f=$(grep -l -- "<$t" ./*.npy | head -n 1)
    both "'<$t'" "$f"
done
both "'>f8'" big.npy
npy vast.npy '<f8' '(4611686018427387904, 4)' False "$f8_1"
both 'vast.npy: ' vast.npy
npy claims.npy '<f4' '(100000, 100000)' False "$f4_1"
both 'claims.npy: truncated' claims.npy
mkdir dir.npy
both 'dir.npy: .*directory' dir.npy
both 'missing.npy: .*No such file' missing.npy
both 'No such file' missing/in.npy

# spectrum of .safetensors
echo 'no tensors' >bad.safetensors
fails 1 'bad.safetensors: ' spectrum bad.safetensors
: >none.safetensors
fails 1 'none.safetensors: ' spectrum none.safetensors
fails 1 'gone.safetensors: .*No such file' spectrum gone.safetensors

# places where nothing can be written
unwritable() { # unwritable PATTERN OUT ARGUMENT...
    keeps_files fails 1 "$1" clip good.npy "$2" --threshold 1 "${@:3}"
}
mkdir out.dir
unwritable 'out.dir: .*directory' out.dir
unwritable 'absent/out.npy: .*No such file' absent/out.npy
unwritable 'new.npy/: ' new.npy/
unwritable 'empty' ''
unwritable 'Not a directory' good.npy/out.npy
ln -s nowhere link.npy
unwritable 'link.npy: ' link.npy
program=$MUSEC
if [ "$(id -u)" -eq 0 ]; then # root may write everywhere, unless it gives up that right
    printf '#!/bin/sh\nexec setpriv --bounding-set=-dac_override,-dac_read_search "%s" "$@"\n' \
        "$MUSEC" >humble
    chmod +x humble
    MUSEC=./humble
fi
if "$MUSEC" --version >/dev/null 2>&1; then
    chmod 555 out.dir
    unwritable 'Permission denied' out.dir/out.npy
    chmod 755 out.dir
    echo old >guarded.npy
    chmod 444 guarded.npy
    unwritable 'Permission denied' guarded.npy
    check "the protected file is unchanged" test "$(cat guarded.npy)" = old
    cp good.npy secret.npy
    chmod 000 secret.npy
    both 'secret.npy: .*Permission denied' secret.npy
    chmod 600 secret.npy
else
    skip "no directory is unwritable for root here"
fi
MUSEC=$program
if [ -w /dev/full ]; then
    unwritable '/dev/full: .*No space left' /dev/full
    check "/dev/full is still a device" test -c /dev/full
    unwritable '/dev/full: .*No space left' /dev/full --json
else
    skip "no /dev/full here"
fi

# A limit on the size of files stands for a disk that fills up half-way.
npy wide.npy '<f8' '(1, 2048)' False "$(printf '%s' "$f8_1"; for _ in {2..2048}; do printf '%s' "$f8_0"; done)"
echo 'an old result' >out.npy
program=$MUSEC
printf '#!/bin/sh\ntrap "" XFSZ\nulimit -f 8\nexec "%s" "$@"\n' "$MUSEC" >limited
chmod +x limited
MUSEC=./limited
keeps_files fails 1 'out.npy: ' clip wide.npy out.npy --threshold 1
MUSEC=$program
check "the old output is unchanged" test "$(cat out.npy)" = 'an old result'
finish
