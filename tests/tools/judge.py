"""judge.py - counts the checks of a Python script that a test of tests/cli runs through `judged`."""
counts = {"passed": 0, "failed": 0}


def check(ok, what):
    counts["passed" if ok else "failed"] += 1
    if not ok:
        print("FAILED:", what)


def ends():
    """The script has come to its end: prints the counts as its last line."""
    print(counts["passed"], counts["failed"])
