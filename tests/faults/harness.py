"""harness.py - musec in directories of its own, and whether two of them hold the same."""
import atexit
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import cases

ON_RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "on_ranks")
LIMIT_S = 60  # longer is a hang; the longest command takes a second


# ---- what is compared ----

TIMES = [  # what no two runs have in common
    (re.compile(rb'"(tok_s|time_s|start_s|seconds|data|model|optim|rest|ms|mb_s|ratio|to_go_s|full_to_go_s)"'
                rb': (-?[0-9][0-9.e+-]*|null)'), rb'"\1": *'),
    (re.compile(rb"[0-9.]+ s\b|[0-9.]+ (kB|MB|tok)/s"), b"* s"),
    # What is free at this moment; left out where the system does not say it.
    (re.compile(rb',\s*"available": [0-9]+|\n +available +[0-9.]+ MiB'), b""),
]


def normal(name, data, folder):
    """The bytes of a file without times, and without the name of the directory."""
    if name == "state.json" or name.endswith("/state.json"):
        data = re.sub(rb'"[0-9a-f]{64}"\n}\n$', b"", data)  # the sum of what goes on the next line
    if name.endswith("summary.json"):  # and the sums of what has times in it
        data = re.sub(rb'"log": {[^}]*}|"[0-9a-f]{64}"\n}\n$', b"", data)
        data = re.sub(rb'"machine": "[^"]*"', b"", data)  # where the processor can be told
    if name.endswith("summary.json"):
        data = re.sub(rb'"date": "[^"]*"', b"", data)  # midnight may have passed
    if name.endswith("checksums.json"):  # of a file that was there already it does not know this
        data = re.sub(rb',\n *"url": "[^"]*"', b"", data)
    data = data.replace(os.fsencode(folder), b"@")
    if name == "stdout of measurements":
        return re.sub(rb"[0-9.]+(e[-+]?[0-9]+)?", b"*", data)
    if name.endswith("events.out.tfevents.musec"):
        return len(data)  # its numbers are those of the log, and the time of each
    if not name.endswith((".safetensors", ".bin", ".npy", ".png")):
        for pattern, by in TIMES:
            data = pattern.sub(by, data)
    return data


def tree(top):
    """All files below, by name."""
    found = {}
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), top) + "/"] = b""
        for name in files:
            if name == "output.txt":  # the messages of a run in a sweep: they tell what happened
                continue
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                short = os.path.relpath(path, top)
                found[short] = normal(short, f.read(), top)
    return found


def difference(a, b):
    """In words, or None."""
    for name in sorted(set(a) | set(b)):
        if name not in a or name not in b:
            return "%s is %s" % (name, "missing" if name not in b else "left behind")
        if a[name] != b[name]:
            return "%s has other bytes" % name
    return None


# ---- running ----

class Server:
    """The files below a directory over HTTP, for musec data get."""

    def __init__(self, folder):
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args):
                pass
        handler = functools.partial(Quiet, directory=folder)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.port = self.server.server_address[1]


def skip_unless_asked(build):
    """Exits with 77 where the kernel does not ask before system calls (supervise.h)."""
    tool = os.path.join(os.path.abspath(build), "tests", "fail_call")
    if subprocess.run([tool, "write", "EIO", "0", os.devnull, "true"]).returncode != 0:
        print("skipped: no notifications of system calls here (seccomp, Linux 5.5)")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(77)


class Bench:
    """The programs, the directories that cases begin with, and what an undisturbed run gives."""

    def __init__(self, build, keep):
        self.musec = os.path.abspath(os.path.join(build, "musec"))
        faults = os.path.abspath(os.path.join(build, "tests"))
        self.shim = os.path.join(faults, "libfail_alloc.so")
        self.fail_call = os.path.join(faults, "fail_call")
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.top = tempfile.mkdtemp(prefix="musec-faults-", dir=base)
        self.keep, self.made, self.wanted = keep, {}, {}
        self.server = Server(os.path.join(self.top, "www"))
        atexit.register(self.close)

    def close(self):
        if not self.keep:
            shutil.rmtree(self.top, ignore_errors=True)

    def names_of(self, lines):
        """The functions of musec among the lines of a stack, or the call that failed."""
        at = [x.split("(+")[1].split(")")[0] for x in lines if "musec(+" in x]
        if not at:
            return [x for x in lines if not x.startswith("calls ")][:3]
        p = subprocess.run(["addr2line", "-fse", self.musec] + at, capture_output=True, text=True)
        names = p.stdout.split("\n")
        return ["%s %s" % pair for pair in zip(names[0::2], names[1::2])][:8]

    def environment(self, folder, more=None):
        env = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "TMPDIR": folder,
               "LC_ALL": "C", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        env.update(more or {})
        return env

    def start(self, folder, argv, stdin=None, env=None, before=(), ranks=0):
        """Runs musec in the folder; (exit status, stdout, stderr), status None for a hang."""
        program = [self.musec]
        if ranks > 0:
            program = [ON_RANKS, str(ranks), self.musec]
            env = dict(env or {}, MUSEC_TEST_LAUNCHER="plain", MASTER_ADDR="127.0.0.1")
        with (open(os.path.join(folder, stdin), "rb") if stdin else open(os.devnull, "rb")) as f:
            try:
                p = subprocess.run(list(before) + program + argv, cwd=folder, stdin=f,
                                   capture_output=True, timeout=LIMIT_S,
                                   env=self.environment(folder, env))
            except subprocess.TimeoutExpired as hang:
                return None, hang.stdout or b"", hang.stderr or b""
        return p.returncode, p.stdout, p.stderr

    def template(self, needs):
        """The directory of that name, made once."""
        if needs in self.made:
            return self.made[needs]
        folder = os.path.join(self.top, "needs-" + needs)
        if needs == "inputs":
            os.mkdir(folder)

            def put(name, data):
                path = os.path.join(self.top if name.startswith("www/") else folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(data)
            cases.write_inputs(put, self.server.port)
        else:
            shutil.copytree(self.template("inputs"), folder)
            for argv in cases.NEEDS[needs]:
                status, _, err = self.start(folder, argv)
                if status != 0:
                    sys.exit("%s: %s" % (" ".join(argv), err.decode()))
        self.made[needs] = folder
        return folder

    def prepare(self, case):
        """What an undisturbed run of the case prints and writes."""
        if case.name in self.wanted:
            return
        folder = self.fresh(case)
        status, out, err = self.start(folder, case.argv, case.stdin, ranks=case.ranks)
        if status != 0:
            sys.exit("%s: exit %s: %s" % (case.name, status, err.decode()))
        files = tree(folder)
        again, out2, _ = self.start(folder, case.again, case.stdin, ranks=case.ranks)
        self.wanted[case.name] = (normal(case.stdout, out, folder), files, again)
        shutil.rmtree(folder)

    def fresh(self, case):
        folder = tempfile.mkdtemp(prefix="t-", dir=self.top)
        shutil.copytree(self.template(case.needs), folder, dirs_exist_ok=True)
        return folder


# ---- the judge ----

def judge_again(bench, case, folder, files_wanted, said=""):
    """What is wrong after the command was given again, undisturbed; what it said before of a
    directory that it could not remove."""
    argv = case.again
    resume = [x for x in argv if x == "--out"]
    if argv[0] == "train" and resume and os.path.exists(
            os.path.join(folder, argv[argv.index("--out") + 1], "config.json")):
        ranks = sum((argv[argv.index(x):][:2] for x in ("--comm", "--replicas") if x in argv), [])
        argv = ["train", "--resume", argv[argv.index("--out") + 1], "--quiet"] + ranks
    elif argv[0] in ("train", "export") and resume:
        shutil.rmtree(os.path.join(folder, argv[argv.index("--out") + 1]), ignore_errors=True)
    elif argv[0] == "tokenize" and os.path.exists(os.path.join(folder, "out", "manifest.json")):
        argv = argv + ["--resume"]
    status, _, err = bench.start(folder, argv, case.stdin, ranks=case.ranks)
    if status != 0 and not (argv[0] == "tokenize" and b"is complete" in err):
        return "given again: exit %s: %s" % (status, err.decode(errors="replace").strip()[-300:])
    left = {n: b for n, b in tree(folder).items() if ".part" not in n and (
        not n.startswith("musec-archive-") or n.split("/")[0] not in said) and (
        n in files_wanted or "checkpoint/step_" not in n)}  # the next one written removes old ones
    d = difference(files_wanted, left)
    return None if d is None else "given again: " + d
