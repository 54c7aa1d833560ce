# plan.sh - musec plan: rates that are given, of a chip, and measured here; what it refuses.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

given=(plan --preset nano --tokens-per-s 10000 --optim-ms 50 --device cpu)
succeeds "${given[@]}" --gpus 1,2,8 --link-gbps 100 --latency-us 5
prints '^model: +nano, 3,309,568 parameters, soft-musec$' '^rates: +given; 1e\+04 tokens/s forward and backward$' \
    '^links: +100 Gbit/s and 5 us between ranks$' '^ranks +tokens +passes' '^ +1 +8192 +1 +8192 +819.2 '
succeeds "${given[@]}" --gpus 1 # one rank needs no links
prints '^nothing breaks up to the largest of these numbers$'

# 4 micro-batches of 2048 tokens at 10 tokens a ms, on 1, 2 and 8 ranks of which 4 are idle
succeeds "${given[@]}" --micro-batches 4 --gpus 1,2,8 --link-gbps 100 --latency-us 5 --json
json_is rows.0.compute_ms=819.2 rows.1.compute_ms=409.6 rows.2.compute_ms=204.8 rows.2.idle=4 \
    rows.0.gradient_bytes=0.0 rows.0.efficiency=1.0 weak=false limits.0.limit=idle \
    limits.0.from_ranks=8
json_passes <<'P'
for r in out["rows"]:
    parts = r["compute_ms"] + r["read_ms"] + r["optim_ms"] + r["gradient_ms"] + r["weight_ms"] + r["agreement_ms"]
    assert abs(parts - r["apart_ms"]) < 1e-9 * parts, r
    assert abs(r["batch"] / r["step_ms"] * 1e3 - r["tokens_s"]) < 1e-6 * r["tokens_s"], r
    assert r["step_ms"] == r["overlapped_ms"] <= r["apart_ms"], r
    # of the messages no more hides than two thirds of each pass and a third of one
    assert r["apart_ms"] - r["step_ms"] <= r["compute_ms"] * (2 + 1) / 3, r
assert abs(out["rows"][0]["optim_ms"] - 50) < 1e-9, out
assert out["rows"][2]["optim_ms"] < out["rows"][1]["optim_ms"] < 50, out
# two of 4 micro-batches each: 4 P M / n (1 - 1/n), as the document says
want = 4 * out["parameters"] * 4 / 2 * 0.5
assert abs(out["rows"][1]["gradient_bytes"] / want - 1) < 0.05, (out["rows"][1], want)
P
cp stdout half
succeeds "${given[@]/cpu/}" --micro-batches 4 --gpus 1,2,8 --link-gbps 100 --latency-us 5 --json
json_passes <<'P' # rates that are given are those of GPUs, which do not compute and send at once
for r in out["rows"]:
    assert r["overlapped_ms"] <= r["step_ms"] == r["apart_ms"], r
P
succeeds "${given[@]}" --micro-batches 4 --gpus 1,2,8 --link-gbps 50 --latency-us 5 --json
json_passes <<'P'
half = json.load(open("half"))
for a, b in zip(half["rows"], out["rows"]):
    assert abs(b["bandwidth_ms"] - 2 * a["bandwidth_ms"]) < 1e-9 * b["bandwidth_ms"] + 1e-12, (a, b)
    assert b["latency_ms"] == a["latency_ms"]
P
succeeds "${given[@]}" --gpus 1,2,8 --link-gbps 50 --json --weak
json_is rows.2.batch=65536 rows.2.compute_ms=819.2 weak=true rows.2.passes=1

# its memory is that of musec train --explain
run train --preset nano --micro-batches 4 --device cpu --explain --json
cp stdout explained
succeeds "${given[@]}" --micro-batches 4 --gpus 1 --json
json_passes <<'P'
was, row = json.load(open("explained"))["memory_bytes"], out["rows"][0]
assert row["weights_bytes"] + row["sums_bytes"] == was["weights"] + was["copies"] + was["gradients"], (row, was)
assert row["activations_bytes"] == was["activations"] and row["state_bytes"] == was["optimizer_state"], (row, was)
P

succeeds plan --preset wide --micro-batches 8 --chip h200 --gpus 8,64,512,4096 --weak --link-gbps 400 --gpus-per-node 8 \
    --node-link-gbps 3600 --latency-us 5
prints '^rates: +one NVIDIA H200, bench/results/h200.md; ' ' step ms if overlapped$' '^links: .* within one of 8 ranks$' \
    '^ +4096 +4294967296 ' '^what breaks first:$' '^  from 64 ranks on the optimizer gains nothing: .* 8192 x 2048,' \
    '^  from 512 ranks on a rank needs .* GiB of memory and has 139.8; '
succeeds plan --preset small --chip h200 --optimizer musec --optim-ms 9 --gpus 1 --json
json_is optimizer=musec

# ---- measured here -----------------------------------------------------------------------------------

tiny=(--set layers=1 --set width=32 --set heads=2 --set head=16 --set mlp=64 --set max_doc=64 --set val_tokens=64
    --batch 256 --device cpu)
run plan "${tiny[@]}" --gpus 1 --json
check "measured: $(cat stderr)" test "$code" -eq 0
json_passes <<'P'
assert out["source"] == "measured on cpu, passes of 256 tokens", out["source"]
assert out["token_ms"] > 0 and out["rows"][0]["optim_ms"] > 0 and out["rows"][0]["read_ms"] > 0, out
P
run plan "${tiny[@]}" --gpus 1,4 --link-gbps 10
prints '^rates: +measured on cpu, passes of 256 and 64 tokens'
on_ranks=$MUSEC_SOURCE/tests/tools/on_ranks
"$on_ranks" 1 true >reason 2>&1
if [ $? -eq 77 ]; then
    skip "$(sed 's/^skipped: //' reason)"
else
    for n in 2 3; do
        "$on_ranks" "$n" "$MUSEC" plan "${tiny[@]}" --gpus 1,2 --weak --json >stdout 2>stderr
        check "measured on $n ranks: $(cat stderr)" test $? -eq 0
        json_is "measured_ranks=$n"
        json_passes <<'P'
assert out["link"]["gbps"] > 0 and out["link"]["latency_us"] > 0, out
assert out["rows"][1]["gradient_ms"] > 0 and out["rows"][1]["adding_ms"] > 0, out
P
    done
    "$on_ranks" 2 "$MUSEC" plan --set data=none.txt --gpus 1,2 >stdout 2>stderr
    check "a failure ends all ranks" test $? -ne 0
    check "with one reason: $(cat stderr)" test "$(grep -c '^musec plan: ' stderr)" -eq 1
fi

# ---- what it refuses ---------------------------------------------------------------------------------

fails 2 '--gpus wants whole numbers of 1 or more' plan --gpus 1,,2
fails 2 '--gpus wants whole numbers of 1 or more' plan --gpus 0
fails 2 '--gpus wants whole numbers of 1 or more' plan --gpus 1,x
fails 2 '--gpus wants at most 1048576 ranks' plan --gpus 1e9
fails 2 '--gpus wants at most 64 numbers' plan --gpus "$(seq -s, 70)"
fails 2 '--link-gbps must be above 0' plan --link-gbps 0
fails 2 '--latency-us must be 0 or more' plan --latency-us=-1
fails 2 '--gpus-per-node must be 1 or more, not 0' plan --gpus-per-node 0
fails 2 'the link within a node needs --gpus-per-node' plan --node-link-gbps 100
fails 2 '--tokens-per-s needs --optim-ms' plan --tokens-per-s 100
fails 2 'both say how fast a rank is' plan --chip h200 --tokens-per-s 100 --optim-ms 1
fails 2 '--batch and --set batch=3 give the same field' plan --batch 2 --set batch=3
fails 2 "--batch wants a whole number, not 'x'" plan --batch x
fails 2 'are what --config says already' plan --config c.json --preset nano
fails 1 'give the network by --link-gbps and --latency-us' "${given[@]}" --gpus 1,2
fails 1 'cannot be divided among 10000 ranks: give a larger --batch, or --weak' \
    "${given[@]}" --gpus 10000 --link-gbps 1
fails 1 'a step of lion as it is set was not measured on h200: give --optim-ms' \
    plan --chip h200 --optimizer lion --gpus 1
fails 1 'the rates of h200 are those of bf16' plan --chip h200 --precision f32 --gpus 1
fails 1 '^musec plan: --batch is "0"; it must be' plan --batch 0 --gpus 1
fails 1 '^musec plan: --set: .*none' plan --set none=1 --gpus 1
fails 1 '^musec plan: none.json: ' plan --config none.json --gpus 1
fails 1 'too many' "${given[@]}" --batch 1e15 --micro-batches 1e9 --gpus 1048576 --link-gbps 1 --weak
finish
