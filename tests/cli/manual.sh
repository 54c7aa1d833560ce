# manual.sh - --help, the manual page and the completions tell of the same subcommands and options.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

page=$MUSEC_SOURCE/docs/musec.1

# Options of a subcommand by each source, a line each: "--op NAME" with its value, or "--json".
of_help() { # choices are written out in --help, while the page may describe them one by one
    "$MUSEC" "$1" --help |
        sed -n 's/^  \(--[a-z0-9-]*\)\( [^ ]\{1,\}\)\{0,1\}\( .*\)\{0,1\}$/\1\2/p'
}
of_page() {
    awk -v name="$1" '
        /^\.S[SH]/ {on = $2 == "\"musec" && ($3 == name || $3 == name "\"")}
        on && /^\.BI? \\-\\-/ {gsub(/\\-/, "-"); gsub(/"/, ""); print $2 ($3 == "" ? "" : " " $3)}' "$page"
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
    # The same name for the value too, unless the page lists the choices below it.
    same "$s: values of the page" "$(grep -v '^--op ' help.options | sort)" \
        "$(grep -v '^--op ' page.options | sort)"
    same "$s: options of the bash completion" "$(names <help.options | tr '\n' ' ')" \
        "$(sed -n "s/^ *$s) words='\\([^']*\\)'.*/\\1/p" bash.out | tr ' ' '\n' | grep -e '^--' |
            grep -vx -e '--help' | sort | tr '\n' ' ')"
    same "$s: options of the fish completion" "$(names <help.options)" \
        "$(sed -n "s/^complete -c musec -n '__musec_is $s' -l \\([a-z0-9-]*\\) .*/--\\1/p" fish.out |
            grep -vx -e '--help' | sort)"
    same "$s: options of the zsh completion" "$(names <help.options)" \
        "$(awk -v name="$s)" '$1 == name {on = 1} on {print} on && /;;$/ {exit}' zsh.out |
            sed -n "s/^ *'\\(--[a-z0-9-]*\\)\\[.*/\\1/p" | grep -vx -e '--help' | sort)"
done

# Defaults that are numbers are the same numbers, and nothing is a number on one side alone.
if have_python; then
    python3 - "$MUSEC" "$page" >defaults.out <<'P' && pass || fail "$(cat defaults.out)"
import re, subprocess, sys
musec, page = sys.argv[1:]
def number(text):  # that it begins with, or None
    found = re.match(r"[-+0-9.e]+(?=[:;,. ]|$)", text.replace("\\-", "-"))
    return float(found[0].rstrip(".")) if found else None
wrong, n = [], 0
for section in re.split(r'^\.SS "musec ', open(page, encoding="utf-8").read(), flags=re.M)[1:]:
    name = re.match(r"[a-z]+", section)[0]
    text = subprocess.run([musec, name, "--help"], stdout=subprocess.PIPE, encoding="utf-8").stdout
    brackets = dict(re.findall(r"^  --([a-z0-9-]+)(?:(?!^  -|^$)[\s\S])*?\[([^\]]*)\]$", text, flags=re.M))
    for entry in re.split(r"^\.TP\n", section, flags=re.M)[1:]:
        option = re.match(r"\.BI? \\-\\-(\S+)", entry)
        default = re.search(r"^Default:? *\n?(?:\.BR? )?(.*)", entry, flags=re.M)
        if option is None or default is None or ".TQ" in entry: continue
        option = option[1].replace("\\-", "-")
        n += 1
        if number(brackets.get(option, "")) != number(default[1]):
            wrong.append(f"{name} --{option}: [{brackets.get(option)}] in --help, {default[1]!r} on the page")
print("\n".join(wrong), n, "options")
sys.exit(len(wrong) > 0 or n < 100)
P
else
    skip "no python3"
fi

# Every operator has its paragraph, every choice of an option its word in the completions.
for op in $("$MUSEC" clip --help | awk '$1 == "--op" {gsub(/\|/, " ", $2); $1 = ""; print}'); do
    check "the page describes $op" grep -qx "\\.B $op" "$page"
done
choices=$("$MUSEC" clip --help | awk '$1 == "--op" {gsub(/\|/, " ", $2); print $2}')
check "bash knows the operators" grep -q "clip:--op) words='$choices'" bash.out
check "zsh knows the operators" grep -q ":($choices)'" zsh.out

# What is installed is what the program prints.
check "completions/musec.bash: write it again with musec completion bash" \
    cmp "$MUSEC_SOURCE/completions/musec.bash" bash.out
check "completions/_musec: write it again with musec completion zsh" \
    cmp "$MUSEC_SOURCE/completions/_musec" zsh.out

check "completions/musec.fish: write it again with musec completion fish" \
    cmp "$MUSEC_SOURCE/completions/musec.fish" fish.out

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
