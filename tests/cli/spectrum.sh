# spectrum.sh - musec spectrum on matrices with known singular values.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

# safetensors FILE HEADER DATA: the length of the header in 8 bytes, the header, the data.
safetensors() {
    local n=${#2}
    {
        # shellcheck disable=SC2059  # the escapes are the point
        printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0"
        printf '%s' "$2"
        # shellcheck disable=SC2059
        printf "$3"
    } >"$1"
}

npy x.npy '<f8' '(2, 3)' False "$f8_0$f8_4$f8_0$f8_1$f8_0$f8_0" # s = 4, 1
succeeds spectrum x.npy
prints '^matrix +shape +sigma1 +frobenius +nuclear +eff.rank +largest$'
prints '^x.npy +2x3 +4 +4\.12311 +5 +1\.6494 +4 1$'
succeeds spectrum x.npy --threshold 2 --top 1
prints '^matrix .* above D +largest$' '^x.npy .* 50\.0% +4$'
succeeds spectrum x.npy --top 0
prints '^x.npy +2x3 +4 +4\.12311 +5 +1\.6494$'
succeeds spectrum x.npy --values
prints '^x.npy 0 4$' '^x.npy 1 1$'
succeeds spectrum x.npy --estimate 3
prints '^x.npy +2x3 +4$'
succeeds spectrum x.npy --dtype f32 --device ref
prints '^x.npy +2x3 +4 '

npy stack.npy '<f4' '(2, 2, 2)' False "$f4_3$f4_0$f4_0$f4_1$f4_0$f4_0$f4_0$f4_0"
succeeds spectrum stack.npy
prints '^stack.npy\[0\] +2x2 +3 ' '^stack.npy\[1\] +2x2 +0 +0 +0 +0 +0 0$'
npy conv.npy '<f4' '(2, 1, 1, 2)' False "$f4_3$f4_0$f4_0$f4_1"
succeeds spectrum conv.npy
prints '^conv.npy +2x2 +3 '
"$MUSEC" clip x.npy /dev/stdout --op polar 2>/dev/null | "$MUSEC" spectrum /dev/stdin >stdout 2>stderr
prints '^stdin +2x3 +1 .* 1 1$'

# a .safetensors file: every floating-point matrix, and a note on the other tensors
safetensors model.safetensors '{"__metadata__":{"format":"pt"},
"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},
"bias":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},
"conv":{"dtype":"BF16","shape":[2,1,2],"data_offsets":[24,32]},
"ids":{"dtype":"I32","shape":[1,1],"data_offsets":[32,36]},
"none":{"dtype":"F32","shape":[0,4],"data_offsets":[36,36]}}' \
    "$f4_3$f4_0$f4_0$f4_1$f4_1$f4_2"'\x80\x40\0\0\0\0\x80\x3f'"$f4_1"
exits 0 spectrum model.safetensors
prints '^w +2x2 +3 ' '^conv\[0\] +1x2 +4 +4 +4 +1 +4$' '^conv\[1\] +1x2 +1 '
check "three matrices and a heading" test "$(wc -l <stdout)" -eq 4
check "what was skipped, in one line" test "$(wc -l <stderr)" -eq 1
check "and why" grep -q \
    '^musec spectrum: skipped 3 of the tensors: 1 vectors or scalars, 1 not floating, 1 empty$' stderr
safetensors vectors.safetensors '{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' "$f4_1$f4_2"
fails 1 'vectors.safetensors: no matrix among its 1 tensors' spectrum vectors.safetensors
safetensors nan.safetensors '{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},
"b.w":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}}' "$f4_1$f4_1$f4_nan"
fails 1 'b.w: element \[0, 1\] is nan' spectrum nan.safetensors

succeeds spectrum x.npy --json --threshold 2 --values
json_is matrices.0.name=x.npy matrices.0.rows=2 matrices.0.cols=3
check "norms" near 1e-13 "$(json matrices 0 norm2) $(json matrices 0 nuclear)" '4 5'
json_is matrices.0.share_above=0.5 matrices.0.values='[4.0, 1.0]'
succeeds spectrum x.npy --json --estimate 4
json_is estimate=4
check "estimate" near 1e-12 "$(json matrices 0 norm2)" 4
run spectrum model.safetensors --json
json_is skipped.0.name=bias skipped.1.dtype=I32
finish
