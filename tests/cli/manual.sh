# manual.sh - --help, the manual page and the completions have the same subcommands and options.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

page=musec.1
"$MUSEC" help --man "$MUSEC_SOURCE/docs/musec.1.in" >"$page" || fail "the page is not written"

# Options of a subcommand by each source, a line each: "--op NAME" with its value, or "--json".
of_help() {
    help_of "$1" |
        sed -n 's/^  \(--[a-z0-9-]*\)\( [^ ]\{1,\}\)\{0,1\}\( .*\)\{0,1\}$/\1\2/p'
}
of_page() {
    awk -v name="$1" '
        /^\.S[SH]/ {on = $2 == "\"musec" && ($3 == name || $3 == name "\"")}
        on && /^\.BI? \\-\\-/ {gsub(/\\-/, "-"); gsub(/\\:/, ""); gsub(/"/, ""); print $2 ($3 == "" ? "" : " " $3)}' "$page"
}
names() { cut -d' ' -f1 | sort; }
same() { # same WHAT A B: two texts agree
    if [ "$2" = "$3" ]; then pass; else fail "$1: $(diff <(echo "$2") <(echo "$3"))"; fi
}

same "subcommands of the page" "$(subcommands | sort)" \
    "$(sed -n 's/^\.SS "musec \([a-z]*\).*/\1/p' "$page" | sort)"
"$MUSEC" completion bash >bash.out
"$MUSEC" completion zsh >zsh.out
"$MUSEC" completion fish >fish.out
for s in $(subcommands); do
    of_help "$s" >help.options
    of_page "$s" >page.options
    check "$s: the page has a section" grep -q "^\\.SS \"musec $s" "$page"
    same "$s: options of the page" "$(names <help.options)" "$(names <page.options)"
    same "$s: values of the page" "$(sort help.options)" "$(sort page.options)"
    same "$s: options of the bash completion" "$(names <help.options | tr '\n' ' ')" \
        "$(awk -v name="$s)" '$1 == name {on = 1} on && $1 == "*)" {print; exit}' bash.out |
            sed "s/.*words='\\([^']*\\)'.*/\\1/" | tr ' ' '\n' | grep -e '^--' | grep -vx -e '--help' |
            sort | tr '\n' ' ')"
    same "$s: options of the fish completion" "$(names <help.options)" \
        "$(sed -n "s/^complete -c musec -n '__musec_is $s' -l \\([a-z0-9-]*\\) .*/--\\1/p" fish.out |
            grep -vx -e '--help' | sort)"
    same "$s: options of the zsh completion" "$(names <help.options)" \
        "$(awk -v name="$s)" '$1 == name {on = 1} on {print} on && /;;$/ {exit}' zsh.out |
            sed -n "s/^ *'\\(--[a-z0-9-]*\\)\\[.*/\\1/p" | grep -vx -e '--help' | sort)"
done

# Every default of --help is on the page.
for s in $(subcommands); do
    same "$s: defaults of the page" \
        "$(help_of "$s" | awk '/^  --/ {on = 1} /^$/ {on = 0} on && /\]$/ && !/\[needed\]$/' | wc -l)" \
        "$(awk -v name="$s" '/^\.S[SH]/ {on = $2 == "\"musec" && ($3 == name || $3 == name "\"")}
            on && /^Default: ./' "$page" | wc -l)"
done

# Every operator has its paragraph, every choice of an option its word in the completions.
for op in $(help_of clip | awk '$1 == "--op" {gsub(/\|/, " ", $2); $1 = ""; print}'); do
    check "the page describes $op" grep -qx "\\.B $op" "$page"
done
choices=$(help_of clip | awk '$1 == "--op" {gsub(/\|/, " ", $2); print $2}')
check "bash knows the operators" grep -q -- "--op) words='$choices'" bash.out
check "zsh knows the operators" grep -q ":($choices)'" zsh.out
fails 1 'no-such-file' help --man no-such-file
printf '.\\" options frobnicate\n' >wrong.in
fails 1 'no subcommand frobnicate' help --man wrong.in
printf '.\\" options completion\n.\\" more --frobnicate\n' >wrong.in
fails 1 'no option --frobnicate' help --man wrong.in

if command -v groff >/dev/null; then
    groff -man -ww -z -Tutf8 "$page" >groff.out 2>&1
    check "groff finds no fault with the page: $(cat groff.out)" test ! -s groff.out
else
    skip "no groff"
fi
if man --version >/dev/null 2>&1; then
    man --warnings -l "$page" >man.out 2>man.err
    check "man shows the page" grep -q 'musec' man.out
    check "man finds no fault with the page: $(cat man.err)" test ! -s man.err
else
    skip "no man"
fi
finish
