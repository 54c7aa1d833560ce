# optimizers.sh - an optimizer is one row of src/core/optimizers.c (and, if its update direction is
# new, one of the base optimizers of src/optim): no other file lists optimizers.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

registry=core/optimizers.c
# Files that compare optimizers which somebody chose, whatever else the registry has: the base
# optimizers, the claims and tables of the paper, and the demonstration.
chosen='optimizers.c base_optimizers.c verdict.c claims_rates.c paper_tables.c cmd_demo.c'

cd "$MUSEC_SOURCE/src" || exit 1
names=$(sed -n 's/.*\.name *= "\(.*\)",$/\1/p' "$registry")
check "the registry has rows" test "$(wc -w <<<"$names")" -ge 10

# lists: the C files below here that have three or more optimizers as string literals.
lists() {
    grep -rE --include='*.[ch]' --include='*.cu*' "\"($(paste -sd'|' <<<"$names"))\"" . |
        grep -vE '^[^:]*:( \*|/\*)' | # comments
        sed -E 's/^([^:]*):/\1 /' | while read -r file line; do
        grep -oE '"[a-z-]+"' <<<"$line" | sed "s|^|$file |"
    done | sort -u | grep -E "\"($(paste -sd'|' <<<"$names"))\"" | cut -d' ' -f1 | uniq -c |
        awk '$1 >= 3 { print $2 }'
}
check "the search finds the registry itself" grep -q "$registry" <(lists)
for file in $(lists); do
    if [[ " $chosen " == *" $(basename "$file") "* ]]; then pass; else fail "$file lists optimizers"; fi
done

# What loops over the registry: help, completion, the trainer's defaults and the library.
cd - >/dev/null || exit 1
run replay --help
cp stdout help
"$MUSEC" completion bash >words
for name in $names; do
    check "replay --help has $name" grep -q "^ *$name " help
    check "bash completes $name" grep -q -w -e "$name" words
    succeeds train --optimizer "$name" --init-out 0.5 --init-down 0.5 --explain # muonh notes that
done
finish
