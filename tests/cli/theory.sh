# theory.sh - musec theory params: numbers by hand, constraints that fail, wrong usage.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

succeeds theory --help
prints '^Usage: musec theory .*params'
succeeds theory params --help
prints '^Usage: musec theory params'
for o in delta steps rank rho lipschitz sigma gap epsilon json; do prints "^  --$o"; done

# delta = 1, N = 64, r = 4: all results are powers of two, and N is the least with beta <= 1/8.
succeeds theory params --delta 1 --steps 64 --rank 4 --epsilon 2.5
prints '^T +16  ' '^K +4  ' '^D +0\.25  ' '^beta +0\.125  ' '^eta +0\.125  ' '^gamma +1  '
prints '^radius +eta T D sqrt\(r\) <= delta +1 +1 +yes +1$'
prints '^momentum +beta <= 1/8 +0\.125 +0\.125 +yes +64$' '^step +eta <= 1/rho +0\.125 +1 +yes +1$'
prints '^epoch +T <= N +16 +64 +yes +1$'
prints '^All constraints hold; the least N at which they do is 64\.$' '^noise +0\.25 +0\.25 '
prints '^clip +0\.25 +0\.25 ' '^start +1 +1 ' '^steps +0\.5 +0\.5 ' '^gap +0\.5 +0\.5 '
prints '^bound +2\.5 +2\.5 '
prints '^A bound of 2\.5 takes N = 64 steps .*, and N = 64 where T and K are whole\.$'
succeeds theory --delta 1 params --steps 64 --rank 4 # the part may stand anywhere
prints '^T +16  '

# Each constraint is named where it fails, with the least N at which all hold.
succeeds theory params --delta 1 --steps 63 --rank 4
prints '^momentum .* NO +64$' '^beta <= 1/8 does not hold; '
prints '^Not all constraints hold; the least N at which they do is 64\.$'
succeeds theory params --delta 0.01 --steps 50 --rank 1
prints '^radius .* NO +100$' '^eta T D sqrt\(r\) <= delta does not hold; '
succeeds theory params --delta 1 --steps 100 --rank 1 --rho 10
prints '^step +eta <= 1/rho +0\.215443 +0\.1 +NO +1000$' 'least N at which they do is 1000\.$'
succeeds theory params --delta 100 --steps 1000 --rank 1
prints '^K +0  ' '^T <= N does not hold; ' '^bound +inf '

fails 2 'needs --delta' theory params --steps 10 --rank 1
fails 2 'needs --steps' theory params --delta 1 --rank 1
fails 2 'needs --rank' theory params --delta 1 --steps 10
fails 2 'needs --steps, a number of 1 or more' theory params --delta 1 --steps -9223372036854775808 --rank 1
fails 2 "wants params\|run PROBLEM, not 'parms'" theory parms
fails 2 'wants params' theory
fails 2 'unknown option --detla' theory params --detla 1
fails 2 '--steps wants a whole number' theory params --delta 1 --steps 1.5e0 --rank 1
fails 2 '--rank wants a whole number' theory params --delta 1 --steps 10 --rank 1.5
fails 2 "--delta wants a finite number, not 'nan'" theory params --delta nan --steps 10 --rank 1
fails 2 "--sigma wants a finite number, not 'inf'" theory params --delta 1 --steps 10 --rank 1 --sigma inf
fails 1 '--delta is 0; it must be a finite number above 0' theory params --delta 0 --steps 10 --rank 1
fails 1 '--delta is -1; ' theory params --delta -1 --steps 10 --rank 1
fails 1 '--rank is 0; it must be a finite number of at least 1' theory params --delta 1 --steps 10 --rank 0
fails 1 '--steps is 0; it must be from 1 to 2\^53' theory params --delta 1 --steps 0 --rank 1
fails 1 '--rho is -1; ' theory params --delta 1 --steps 10 --rank 1 --rho -1
fails 1 '--gap is -1; ' theory params --delta 1 --steps 10 --rank 1 --gap -1
fails 1 '--lipschitz is 1e\+200: .*overflows' theory params --delta 1 --steps 10 --rank 1 --lipschitz 1e200
fails 1 '--delta 1e\+300 with --steps 10: .*overflow' theory params --delta 1e300 --steps 10 --rank 1
fails 1 '--epsilon is 0; ' theory params --delta 1 --steps 10 --rank 1 --epsilon 0
fails 1 '--epsilon is 1e-200: .*overflows' theory params --delta 1 --steps 10 --rank 1 --epsilon 1e-200
succeeds theory params --delta 1 --steps 10 --rank 1 --epsilon 1e-12
prints '^A bound of 1e-12 takes N = [0-9.]*e[+][0-9]* steps'

succeeds theory params --delta 1 --steps 64 --rank 4 --epsilon 2.5 --json
check "valid JSON" python3 -m json.tool stdout
check "parameters" test "$(json T) $(json K) $(json D) $(json beta) $(json eta) $(json gamma)" = \
    '16 4 0.25 0.125 0.125 1.0'
check "given" test "$(json given delta) $(json given steps) $(json given rho)" = '1 64 1'
check "constraints" test "$(json constraints 2 name) $(json constraints 2 holds)" = 'momentum true'
check "bound" test "$(json bound total) $(json bound_real total)" = '2.5 2.5'
check "least N" test "$(json least_steps) $(json all_hold)" = '64 true'
check "target" test "$(json complexity steps) $(json complexity steps_whole)" = '64.0 64'
succeeds theory params --delta 100 --steps 1000 --rank 1 --json
check "no bound" test "$(json bound total) $(json complexity)" = 'null null'
finish
