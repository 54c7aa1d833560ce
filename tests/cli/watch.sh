# watch.sh - musec watch: the table, JSON, the live page and who may read it.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

export OMP_NUM_THREADS=1

succeeds train --preset pico --steps 2 --out runs/a --quiet
succeeds watch runs --once
prints '^run +optimizer +lr +step +loss +val +tok/s +left +status'
prints '^a +Soft Musec +[0-9.]+ +2/2 +[0-9.]+ +[0-9.]+ +[0-9]+ +- +done' '^0 of 1 running$'
succeeds watch runs/a --json
json_passes <<'P'
run, = out["runs"]
assert run["dir"] == "runs/a" and run["status"] == "done" and run["step"] == run["steps"] == 2
assert [p[0] for p in run["loss"]] == [1, 2] and run["val_loss"][-1][0] == 2
P
mkdir empty
succeeds watch empty --once
prints '^no runs there yet$'

fails 1 'nowhere: it is not there; give the directory' watch nowhere --once
fails 1 'nowhere: it is not there' watch nowhere
fails 1 'every must be from 0.1' watch runs --every 0
fails 1 'port from 0 to 65535' watch runs --port 70000
fails 2 'wants RUN' watch

# the page is served to this machine alone
if "$MUSEC" info --no-peak | grep -q '^libmicrohttpd  *absent'; then
    skip "the live page: this build has no libmicrohttpd"
    finish
fi
"$MUSEC" watch runs --every 0.2 >address 2>err &
watcher=$!
await $watcher test -s address
check "an address of this machine" grep -Eq '^http://127\.0\.0\.1:[0-9]+/$' address
python3 - "$(cat address)" <<'P' && pass || fail "the page: $(cat err)"
import json, sys, time, urllib.error, urllib.request
where = sys.argv[1]
def get(path, **headers):
    request = urllib.request.Request(where + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
status, page = get("")
assert status == 200 and b"<title>musec watch</title>" in page
assert get("page.css")[0] == 200
for _ in range(100):
    status, data = get("data.json")
    if status == 200: break
    time.sleep(0.1)
assert status == 200 and json.loads(data)["runs"][0]["step"] == 2
assert get("data.json", Host="evil.example")[0] == 403
assert get("../etc/passwd")[0] == 404
request = urllib.request.Request(where, data=b"x", method="POST")
try:
    urllib.request.urlopen(request, timeout=20)
    raise SystemExit("POST was taken")
except urllib.error.HTTPError as error:
    assert error.code == 405
P
run watch runs --port "$(sed 's/.*:\([0-9]*\).*/\1/' address)" --every 0.2
[ "$code" -eq 1 ] && grep -q 'is the port taken' stderr && pass || fail "a port twice: $code $(cat stderr)"
kill -INT "$watcher"
wait "$watcher" && pass || fail "interrupted, a watch ends well, not with $?"
finish
