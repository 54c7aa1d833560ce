"""judge.py - counts the checks of a Python script that a test in tests/cli runs by `judged`."""
counts = {"passed": 0, "failed": 0}


def check(ok, what):
    counts["passed" if ok else "failed"] += 1
    if not ok:
        print("FAILED:", what)


def ends():
    """Called at the end of a script: prints the counts as its last line."""
    print(counts["passed"], counts["failed"])
