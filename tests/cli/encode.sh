# encode.sh - musec encode and musec decode: text to ids and back, and invalid input.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

export HOME=$PWD # no vocabulary of the user's own

encodes() { # encodes TEXT IDS OPTION...: in printf's escapes
    local text=$1 want=$2 got
    shift 2
    # shellcheck disable=SC2059  # the escapes are the point
    got=$(printf "$text" | "$MUSEC" encode "$@" 2>stderr)
    if [ "$got" = "$want" ] && [ ! -s stderr ]; then pass; else
        fail "encode $* of '$text': '$got', not '$want'; $(cat stderr)"
    fi
    # shellcheck disable=SC2059
    printf "$text" >want.txt
    set -- "${@/--special/}"
    printf '%s\n' "$want" | "$MUSEC" decode ${@:+"$@"} >got.txt 2>stderr
    if cmp -s want.txt got.txt && [ ! -s stderr ]; then pass; else
        fail "decode $* of '$want': '$(head -c 200 got.txt)'; $(cat stderr)"
    fi
}
refuses() { # refuses PATTERN IDS OPTION...: decode exits 1 with one line and no output
    local pattern=$1 ids=$2
    shift 2
    printf '%s\n' "$ids" >ids.txt
    fails 1 "$pattern" decode "$@" <ids.txt
}

encodes '' '' --tokenizer byte
encodes 'Hi\n' '72 105 10' --tokenizer byte
encodes '\000\377' '0 255' --tokenizer byte
encodes 'a<|endoftext|>' '97 60 124 101 110 100 111 102 116 101 120 116 124 62' --tokenizer byte
got=$(printf 'a<|endoftext|>b' | "$MUSEC" encode --tokenizer byte --special)
check "the start of a document" test "$got" = '97 256 98'
got=$(printf '97 256\n\t98\n' | "$MUSEC" decode --tokenizer byte)
check "and back" test "$got" = 'a<|endoftext|>b'

refuses "id number 2, at byte 3: '9x' is no whole number" '72 9x 10' --tokenizer byte
refuses "id number 1, at byte 0: '-1' is no whole number" '-1' --tokenizer byte
refuses "id number 3, at byte 4: 257 is beyond the vocabulary, whose ids are 0 to 256" '1 2 257' \
    --tokenizer byte
refuses "99999999999999999999 is beyond" '99999999999999999999' --tokenizer byte
: >empty
fails 2 "--tokenizer 'words' is none of gpt2\\|byte" encode --tokenizer words <empty
fails 2 "--vocab is GPT-2's" encode --tokenizer byte --vocab x <empty
fails 2 'takes no operand' encode text <empty
fails 2 'takes no operand' decode 15496 <empty
if [ -w /dev/full ]; then
    echo x | "$MUSEC" encode --tokenizer byte >/dev/full 2>stderr
    check "a full disk exits 1" test $? -eq 1
fi

if ! "$MUSEC" info --no-peak | grep -q '^utf8proc  *[0-9]'; then
    fails 1 'install libutf8proc-dev' encode --vocab . <empty
    skip "GPT-2: built without utf8proc"
    finish
fi
fails 1 "neither in data/gpt2 nor in $HOME/.local/share/musec/gpt2: musec data get gpt2-vocab" \
    encode <empty
fails 1 'gone: .*No such file' encode --vocab gone <empty
mkdir -p data/gpt2
fails 1 'data/gpt2: no vocabulary is there' decode <empty

gpt2=$shared_data/gpt2
if [ ! -e "$gpt2" ]; then
    skip "GPT-2: no shared data"
    finish
fi
encodes 'Hello world' '15496 995' --vocab "$gpt2"
encodes 'Hello world' '15496 995' --vocab "$gpt2/r50k_base.tiktoken"
encodes 'Hello world' '15496 995' --vocab "$gpt2/gpt2_tokenizer.bin"
encodes '' '' --vocab "$gpt2"
got=$(printf '<|endoftext|>Hello' | "$MUSEC" encode --special --vocab "$gpt2")
check "the start of a document" test "$got" = '50256 15496'
refuses "at byte 6: 50257 is beyond the vocabulary, whose ids are 0 to 50256" '15496 50257' \
    --vocab "$gpt2"
rmdir data/gpt2
ln -s "$gpt2" data/gpt2
encodes 'Hello world' '15496 995'
rm data/gpt2
mkdir -p .local/share/musec
ln -s "$gpt2" .local/share/musec/gpt2
encodes 'Hello world' '15496 995'

head -c 300000 /dev/urandom >random
"$MUSEC" encode <random >ids.txt
check "encode takes any bytes" test $? -eq 0
"$MUSEC" decode <ids.txt >back
check "random bytes come back" cmp random back

succeeds bench tokenize --quick --repeats 1 --vocab "$gpt2"
prints '^  one thread .* MB/s'
succeeds bench tokenize --quick --repeats 1 --vocab "$gpt2" --json
check "valid JSON" python3 -m json.tool stdout
check "a speed" awk -v x="$(json rows 0 mb_s)" 'BEGIN {exit !(x > 1)}'
finish
