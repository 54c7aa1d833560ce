# beginner.sh - frequent mistakes of new users, and the line that they get: what is wrong, what was
# expected, what to do.  A row is the exit status, the line as printed (with ... for what differs
# between machines and builds), and the command.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 HOME=$PWD/home
unset XDG_DATA_HOME

# ---- files -----------------------------------------------------------------------------------------

tiny=(train --quiet --layers 1 --width 32 --heads 1 --head 32 --mlp 32 --batch 256 --val-tokens 512
    --steps 2)
succeeds "${tiny[@]}" --out runs/first
mkdir empty home
yes 'It was the best of times, it was the worst of times.' | head -c 20000 >book.txt
: >nothing.txt
gzip -c book.txt >book.txt.gz
printf '%%PDF-1.4\n\0\1\2\3' >paper.pdf
succeeds tokenize book.txt --tokenizer byte --out bytes
npy grad.npy '<f4' '(2, 2)' False "$f4_1$f4_0$f4_0$f4_2"
npy row.npy '<f4' '(4,)' False "$f4_1$f4_0$f4_0$f4_2"
npy whole.npy '<i4' '(2, 2)' False "$f4_1$f4_0$f4_0$f4_2"
npy tall.npy '<f4' '(3, 1)' False "$f4_1$f4_0$f4_0"
npy steps.npy '<f4' '(1, 2, 2)' False "$f4_1$f4_0$f4_0$f4_2"
tokens() { # GPT-2's: <|endoftext|>Hello world, over and over
    for _ in {1..500}; do printf '\x50\xc4\x88\x3c\xe3\x03'; done
}
tokens >nanogpt.bin
{
    printf '\x88\xd8\x34\x01\x01\0\0\0\xdc\x05\0\0' # 20240520, 1, 1500
    head -c 1012 /dev/zero
    tokens
} >gpt2.bin

# ---- rows ------------------------------------------------------------------------------------------

rows=0
: >covered
listing >.files.before
# row STATUS LINE ARGUMENT...: exits so and prints that line on stderr, and nothing on stdout.
row() {
    local status=$1 line=$2 got first last
    shift 2
    rows=$((rows + 1))
    echo "$1" >>covered
    run "$@" </dev/null
    got=$(cat stderr)
    first=${line%%...*} last=${line##*...}
    if [ "$code" -eq "$status" ] && [ ! -s stdout ] && [ "$(wc -l <stderr)" -eq 1 ] &&
        [ "${got:0:${#first}}" = "$first" ] && [ "${got: -${#last}}" = "$last" ] &&
        { [[ $line == *...* ]] || [ "$got" = "$line" ]; }; then pass; else
        fail "musec $*: wanted exit $status and '$line', got exit $code and '$got'," \
            "stdout: $(head -c 200 stdout)"
    fi
}

# the program itself
row 2 'musec: there is no subcommand "trian"; did you mean "train"?' trian
row 2 'musec: there is no subcommand "Train"; did you mean "train"?' Train
row 2 'musec: there is no subcommand "generate"; did you mean "sample"?' generate
row 2 'musec: there is no subcommand "book.txt"; musec --help lists the subcommands' book.txt
row 2 'musec: there is no option "--hlep"; did you mean "--help"?' --hlep
row 2 'musec: there is no option "-v"; did you mean "--version"?' -v
row 2 'musec: there is no subcommand "me"; musec --help lists the subcommands' help me

# train: names
row 2 "musec train: takes no operand, but got 'book.txt'; did you mean --data book.txt? (musec train --help says more)" \
    train book.txt
row 2 'musec train: unknown option --batch-size; did you mean --batch? (musec train --help lists all)' \
    train --batch-size 8
row 2 'musec train: unknown option --epochs; did you mean --steps? (musec train --help lists all)' \
    train --epochs 3
row 2 'musec train: unknown option --weight_decay; did you mean --weight-decay? (musec train --help lists all)' \
    train --weight_decay 0.1
row 2 'musec train: unknown option -lr; did you mean --lr? (musec train --help lists all)' train -lr 0.1
row 2 "musec train: --preset 'giant' is none of pico|nano|mini|midi|small|medium|wide|small-full|medium-full|wide-full" train --preset giant
row 2 "musec train: --preset 'PICO' is none of pico|nano|mini|midi|small|medium|wide|small-full|medium-full|wide-full; did you mean \"pico\"?" \
    train --preset PICO
row 2 "musec train: --optimizer 'soft_musec' is none of musec|soft-musec|...; did you mean \"soft-musec\"?" \
    train --optimizer soft_musec
row 2 "musec train: --optimizer 'sgd' is none of musec|soft-musec|...; did you mean \"sgdm\"?" \
    train --optimizer sgd
row 2 "musec train: --precision 'fp16' is none of auto|f32|bf16|f16; did you mean \"f16\"?" \
    train --precision fp16
row 1 'musec train: --set: there is no field "learning_rate"; did you mean "lr"?' \
    train --set learning_rate=0.1
row 1 'musec train: --set: tied is "true"; it must be one of no|yes; did you mean "yes"?' \
    train --set tied=true
row 2 "musec train: --set wants FIELD=VALUE, not 'lr'; see musec train --help" train --set lr
row 1 'musec train: there is no device "CPU"; this build has ...; did you mean "cpu"?' train --device CPU
row 1 'musec train: there is one device "cpu", not "cpu:1"; leave the number out' train --device cpu:1

# train: numbers
row 2 'musec train: --lr needs a value: X' train --lr
row 2 'musec train: --lr needs a value: X' train --lr --steps 10
row 2 "musec train: --lr wants a number, not 'high'; see musec train --help" train --lr high
row 2 "musec train: --lr wants one number (0.5, with a point), not '0,1'; see musec train --help" \
    train --lr 0,1
row 1 'musec train: --lr is "-0.1"; it must be a number from 0 to 1e+09' train --lr -0.1
row 2 "musec train: --steps wants a whole number, not '10k'; see musec train --help" train --steps 10k
row 2 "musec train: --steps wants a whole number, not '1.5'; see musec train --help" train --steps 1.5
row 1 'musec train: --steps is "0"; it must be a whole number from 1 to 1000000000000000' train --steps 0
row 2 "musec train: --threshold wants D|rms:K|quantile:Q, not 'rms'; see musec train --help" \
    train --threshold rms
row 1 'musec train: vocab is 100; the tokenizer has 257 ids: give as many or more, or leave it out' \
    train --vocab 100

# train: data
row 1 'musec train: bok.txt: cannot read (No such file or directory); give a file, a directory or builtin' \
    train --data bok.txt
row 1 'musec train: nothing.txt: has no tokens for training; give a file that is not empty' \
    train --data nothing.txt
row 1 'musec train: empty: has neither shards (*.bin) nor texts (*.txt); give a directory that has, or a file' \
    train --data empty
row 1 'musec train: paper.pdf: is a PDF, not text; take its text first: pdftotext' train --data paper.pdf
row 1 'musec train: grad.npy: is a NumPy array (.npy), not text; give a text file, or shards of tokens as musec tokenize makes them' \
    train --data grad.npy
row 1 'musec train: book.txt.gz: is packed; musec tokenize reads it, or decompress it first: gzip -dk book.txt.gz' \
    train --data book.txt.gz
row 1 'musec train: book.txt: a text is read as bytes, ids up to 256, but the model has 50304 ids and starts documents with 50256; run musec tokenize book.txt --out DIR and train on DIR, or train with --tokenizer byte' \
    train --data book.txt --tokenizer gpt2
row 1 "musec train: gpt2.bin: token 0 has the id 50256, but ids must be below 320 (the largest in the file is 50256); its ids look like GPT-2's: train with --tokenizer gpt2" \
    train --data gpt2.bin
row 1 'musec train: bytes/train_000001.bin: no id in it is above 256, which starts a document of bytes: it was made with the byte tokenizer; train with --tokenizer byte, or tokenize the text anew' \
    train --data bytes/train_000001.bin --tokenizer gpt2
row 1 "musec train: nanogpt.bin: is no shard of tokens: it begins with the number ..., not with 20240520; if it is nanoGPT's, bare 16-bit tokens, add --data-format nanogpt" \
    train --data nanogpt.bin

# train: run directories
row 1 'musec train: runs/first: there is a run already; resume it with --resume runs/first, or choose another --out' \
    train --out runs/first
row 1 'musec train: book.txt: is not a directory; choose another name' train --out book.txt
row 1 'musec train: runs/frist: there is no such directory; did you mean runs/first?' \
    train --resume runs/frist
row 1 'musec train: first: there is no such directory; did you mean runs/first?' train --resume first
row 1 'musec train: runs: is a directory of runs, not a run; give one: runs/first' train --resume runs
row 1 'musec train: runs/first/checkpoint: is not a run, but inside one; did you mean runs/first?' \
    train --resume runs/first/checkpoint
row 1 'musec train: empty: is no run: a run directory has config.json, log.jsonl and checkpoint/' \
    train --resume empty
row 2 'musec train: --resume needs a value: RUN' train --resume
row 1 'musec train: runs/first/config.json says lr 0.2, not 1: a run cannot change that; start another with --out' \
    train --resume runs/first --lr 1
row 1 "musec train: book.txt:1: is no JSON as expected here: ...expected near 'It'" train --config book.txt

# runs
row 2 'musec sample: wants CHECKPOINT (musec sample --help says more)' sample
row 1 'musec sample: runs/frist: there is no such directory; did you mean runs/first?' sample runs/frist
row 2 "musec sample: --temperature wants a number, not 'hot'" sample runs/first --temperature hot
row 2 'musec sample: unknown option --max-new-tokens; did you mean --tokens? (musec sample --help lists all)' \
    sample runs/first --max-new-tokens 9
row 2 "musec export: --to 'onnx' is none of hf" export runs/first --to onnx
row 1 'musec export: runs/frist: there is no such directory; did you mean runs/first?' export runs/frist
row 2 'musec sweep: it wants GRID.json, or flags that make a grid; see musec sweep --help' sweep
row 2 'musec sweep: --optimizer: there is no optimizer "adm"; did you mean "adam"? (see musec sweep --help)' \
    sweep --optimizer muon,adm
row 1 'musec sweep: there is no field "layer"; did you mean "layers"?' sweep --grid layer=1,2
row 1 'musec sweep: grid.json: cannot open for reading (No such file or directory)' sweep grid.json
row 2 'musec report: wants RUN... (musec report --help says more)' report
row 2 'musec report: there is no section "loss"; did you mean "loss-lr"?' report runs --sections loss
row 2 'musec watch: unknown option --prot; did you mean --port? (musec watch --help lists all)' \
    watch runs --prot 80
row 2 'musec demo: unknown option --step; did you mean --steps? (musec demo --help lists all)' demo --step 9
row 1 'musec paper: there is no item "figure2"; did you mean "fig2"?  musec paper list names them all' \
    paper figure2
row 1 'musec paper: there is no scale "smal"; there are pico, nano, mini, midi, brief, small, medium, wide; did you mean "small"?' \
    paper fig1 --scale smal
row 1 'musec theory run: there is no problem "phse"; there are ...; did you mean "phase"?' theory run phse
row 2 'musec theory params: needs --delta, a number above 0; see musec theory params --help' theory params

# data
row 2 'musec tokenize: --out DIR says where the shards go; see musec tokenize --help' tokenize book.txt
row 1 "musec tokenize: GPT-2's vocabulary is neither in data/gpt2 nor in ...: musec data get gpt2-vocab fetches it, --vocab names another place" \
    tokenize book.txt --out new
row 1 'musec tokenize: bok.txt: cannot read (No such file or directory)' \
    tokenize bok.txt --out new --tokenizer byte
row 2 "musec encode: takes no operand, but got 'book.txt'; did you mean <book.txt? (musec encode --help says more)" \
    encode book.txt
row 2 "musec decode: --tokenizer 'bytes' is none of gpt2|byte; did you mean \"byte\"?" \
    decode --tokenizer bytes
row 2 "musec data: wants inspect|get SHARD|NAME, not 'gett'; did you mean \"get\"? (see musec data --help)" \
    data gett fineweb
row 1 "musec data get: there is no data set 'owt'; there are gpt2-vocab, fineweb, openwebtext, c4; did you mean \"openwebtext\"?" \
    data get owt
row 1 'musec data inspect: empty: cannot read (Is a directory); give a file in it' data inspect empty

# matrices
row 2 'musec clip: --op hard needs --threshold D, the bound to clip at; see musec clip --help' \
    clip grad.npy out.npy
operators=$(help_of clip | awk '$1 == "--op" {print $2}')
row 2 "musec clip: --op 'sofft' is none of $operators; did you mean \"soft\"?" \
    clip grad.npy out.npy --op sofft --threshold 1
row 2 "musec clip: --threshold wants a number, not 'grad.npy'" clip --threshold grad.npy out.npy
row 2 "musec clip: wants IN.npy OUT.npy, but got 'grad.npy' alone (musec clip --help says more)" \
    clip grad.npy --threshold 1
row 1 'musec clip: nowhere/out.npy: cannot create (No such file or directory); its directory does not exist: create it first' \
    clip grad.npy nowhere/out.npy --threshold 1
row 1 "musec clip: whole.npy: holds elements of type '<i4'; musec reads '<f4' and '<f8'; in NumPy: np.save(file, np.load(file).astype('<f4'))" \
    clip whole.npy out.npy --threshold 1
row 1 'musec spectrum: book.txt: is not a .npy file (it does not begin with \x93NUMPY)' spectrum book.txt
row 1 'musec spectrum: row.npy: the array has 1 dimension; a matrix has 2, a stack of matrices 3' \
    spectrum row.npy
row 1 'musec replay: grad.npy: the gradients must be (steps, rows, cols), one matrix for each step; this has 2 dimensions' \
    replay --optimizer muon --w0 grad.npy --grads grad.npy --out out.npy
row 1 'musec replay: steps.npy: gradients of 2x2 do not fit the weight of 3x1 in tall.npy' \
    replay --optimizer muon --w0 tall.npy --grads steps.npy --out out.npy

# this machine
row 2 'musec bench: there is nothing called "opps" to time, only ops|step|train|tokenize|accuracy; did you mean "ops"? (see musec bench --help)' \
    bench opps
row 1 'musec plan: give the network by --link-gbps and --latency-us, or start the command by mpirun on two ranks or more, which measure it' \
    plan --chip h200 --preset small
row 1 'musec info: there is no device "cpuu"; this build has ...; did you mean "cpu"?' info --device cpuu
row 2 'musec completion: the shells are bash, zsh and fish, not "powershell"; see musec completion --help' \
    completion powershell

# ---- all of it -------------------------------------------------------------------------------------

listing >.files.after
check "no row leaves a file: $(diff .files.before .files.after)" cmp .files.before .files.after
check "$rows rows" test "$rows" -ge 40
for s in $(subcommands); do
    check "there is a row for musec $s" grep -qx "$s" covered
done

# What a beginner may write, and gets.
succeeds "${tiny[@]:0:${#tiny[@]}-2}" --max-steps 1e1 --learning-rate 0.1 --wd 0.01 --out-dir runs/second
check "the names of other programs are ours" grep -q '"lr": "\{0,1\}0.1' runs/second/config.json
check "and so are their numbers" grep -q '"steps": "\{0,1\}10' runs/second/config.json
exits 0 "${tiny[@]}" --data nanogpt.bin --data-format nanogpt --out runs/third
check "as GPT-2's" grep -q '"tokenizer": "gpt2"' runs/third/config.json
succeeds data inspect nanogpt.bin --data-format nanogpt
prints "^header +none: nanoGPT's, 1500 tokens of 16 bits" '^documents +500$'
finish
