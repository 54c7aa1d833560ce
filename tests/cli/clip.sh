# clip.sh - musec clip on matrices with known singular values.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

# diag(3, 1), clipped at 2
npy d4.npy '<f4' '(2, 2)' False "$f4_3$f4_0$f4_0$f4_1"
npy d8.npy '<f8' '(2, 2)' False "$f8_3$f8_0$f8_0$f8_1"
succeeds clip d4.npy out.npy --op hard --threshold 2
holds out.npy f4 1e-6 '2 0 0 1'
check "an f4 file of 2 x 2 has 128 + 16 bytes" test "$(wc -c <out.npy)" -eq 144
prints '^ *matrix +shape +sigma1 +eff.rank +above D +-> +sigma1 +eff.rank +path +products$'
prints '^ +0 +2x2 +3 +1\.7548 +50\.0% +-> +2 +1\.8899 +[^ ].* +[0-9]+$'
succeeds clip d8.npy out.npy --op hard --threshold 2
holds out.npy f8 1e-14 '2 0 0 1'
succeeds clip d8.npy out.npy --threshold 2 # hard is the default
holds out.npy f8 1e-14 '2 0 0 1'
succeeds clip d8.npy out.npy --op soft --threshold 2 # 2 s / sqrt(s^2 + 4)
holds out.npy f8 1e-13 '1.6641005886756874 0 0 0.8944271909999159'
succeeds clip d8.npy out.npy --op polar
holds out.npy f8 1e-13 '1 0 0 1'
prints '^ +0 +2x2 +3 +1\.7548 +- +-> +1 +2 '
succeeds clip d8.npy out.npy --op polar --threshold 2 # allowed, and used to count
prints ' 50\.0% '
succeeds clip d8.npy out.npy --op accurate --tol 1e-9 --threshold 2
holds out.npy f8 2e-9 '1.6641005886756874 0 0 0.8944271909999159'
succeeds clip d8.npy out.npy --op fast --threshold 2 # tol 2.3e-3 at worst
holds out.npy f8 5e-3 '1.6641005886756874 0 0 0.8944271909999159'
# The paper's steps from F = |diag(13, 5)|_F: 1 - phi_5 is below 1e-12 for both singular values
succeeds clip d8.npy ssc.npy --op ssc --threshold 2
holds ssc.npy f8 1e-6 '1.6641005886756874 0 0 0.8944271909999159'
succeeds clip d8.npy out.npy --op ssc --threshold 2 --literal
holds out.npy f8 1e-10 "$(numbers ssc.npy f8 4)"
succeeds clip d8.npy out.npy --op paper7 --threshold 2
holds out.npy f8 4e-6 "$(numbers ssc.npy f8 4)"
succeeds clip d8.npy out.npy --op ssc --threshold 2 --iters 30
holds out.npy f8 1e-12 '1.6641005886756874 0 0 0.8944271909999159'
for coeffs in keller polar-express cans you turbo cubic; do
    succeeds clip d8.npy out.npy --op ns5 --coeffs "$coeffs"
    holds out.npy f8 0.35 '1 0 0 1' # Keller's steps end anywhere in 0.68 to 1.13
done

# below the threshold hard clipping changes no bit
succeeds clip d4.npy out.npy --threshold 3.5
check "identity below D, bit for bit" cmp d4.npy out.npy
prints ' 0\.0% '

# every operator of the registry, in both precisions, on the reference device too
for op in $(help_of clip | awk '$1 == "--op" {gsub(/\|/, " ", $2); $1 = ""; print}'); do
    for dtype in f32 f64; do
        succeeds clip d4.npy cpu.npy --op "$op" --threshold 2 --dtype "$dtype" --device cpu
        succeeds clip d4.npy ref.npy --op "$op" --threshold 2 --dtype "$dtype" --device ref
        holds cpu.npy "f$((${dtype#f} / 8))" 1e-5 "$(numbers ref.npy "f$((${dtype#f} / 8))" 4)"
    done
done
check "the registry holds eight operators or more" test "$("$MUSEC" clip --help |
    awk '$1 == "--op" {print split($2, names, "|")}')" -ge 8

# --dtype is the arithmetic and the output's
succeeds clip d4.npy out.npy --threshold 2 --dtype f64
holds out.npy f8 1e-14 '2 0 0 1'
check "f64 from an f4 file" test "$(wc -c <out.npy)" -eq 160
succeeds clip d8.npy out.npy --threshold 2 --dtype f32
holds out.npy f4 1e-6 '2 0 0 1'

# shapes: a row, a column, Fortran order, a stack
npy row.npy '<f8' '(1, 2)' False "$f8_3$f8_4"
npy column.npy '<f8' '(2, 1)' False "$f8_3$f8_4"
for f in row column; do
    succeeds clip $f.npy out.npy --threshold 1
    holds out.npy f8 1e-14 '0.6 0.8'
done
npy fortran.npy '<f8' '(2, 3)' True "$f8_1$f8_4$f8_2$f8_5$f8_3$f8_6"
succeeds clip fortran.npy out.npy --threshold 100
holds out.npy f8 0 '1 2 3 4 5 6'
check "the output is in C order" grep -q "'fortran_order': False, 'shape': (2, 3)" out.npy
npy stack.npy '<f8' '(3, 2, 2)' False \
    "$f8_3$f8_0$f8_0$f8_1$f8_0$f8_0$f8_0$f8_0$f8_0$f8_1$f8_4$f8_0"
succeeds clip stack.npy out.npy --threshold 2
holds out.npy f8 1e-14 '2 0 0 1 0 0 0 0 0 1 2 0'
check "a table of three rows" test "$(wc -l <stdout)" -eq 4
prints '^ +1 +2x2 +0 +0 +0\.0% +-> +0 +0 ' '^ +2 +2x2 +4 '

# input and output by every kind of path
cp d8.npy same.npy
succeeds clip same.npy same.npy --threshold 2
holds same.npy f8 1e-14 '2 0 0 1'
"$MUSEC" clip d8.npy /dev/stdout --threshold 2 2>stderr | cat >piped.npy
holds piped.npy f8 1e-14 '2 0 0 1'
check "the pipe has the array alone" test "$(wc -c <piped.npy)" -eq 160
check "the summary goes to stderr then" grep -q '2x2' stderr
"$MUSEC" clip d8.npy /dev/stdout --threshold 2 2>stderr >filed.npy
check "a file as stdout has the array alone" cmp piped.npy filed.npy
"$MUSEC" clip /dev/stdin out.npy --threshold 2 <d8.npy >stdout 2>stderr
check "from stdin" cmp piped.npy out.npy
"$MUSEC" clip <(cat d8.npy) out.npy --threshold 2 >stdout 2>stderr
check "from a pipe" cmp piped.npy out.npy
mkdir -p real
ln -s real/target.npy link.npy
cp d8.npy real/target.npy
succeeds clip d8.npy link.npy --threshold 2
check "a link stays a link" test -L link.npy
check "and its file is the result" cmp piped.npy real/target.npy
succeeds clip --threshold 2 -- d8.npy out.npy
check "no part is left over" test -z "$(find . -name '*.part*')"

# JSON
succeeds clip stack.npy out.npy --threshold 2 --op fast --json
json_is op=fast threshold=2.0 dtype=f64 in=stack.npy out=out.npy matrices.2.index=2
check "norms" near 1e-12 "$(json matrices 0 before norm2)" 3
check "norms after" near 5e-3 "$(json matrices 0 after norm2)" 1.6641005886756874
json_is matrices.0.before.share_above=0.5 matrices.0.products=7 options.iters=5
succeeds clip d4.npy out.npy --op polar --json
json_is threshold=null options.threshold=null
"$MUSEC" clip d8.npy $'bad\xffname.npy' --threshold 1 --json >stdout 2>stderr
check "a name that is no UTF-8 still gives JSON" python3 -m json.tool stdout
finish
