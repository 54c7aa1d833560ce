"""The benches beside PyTorch: what they can show without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import musec

from conftest import ROOT

torch = pytest.importorskip("torch")

PEERS = ROOT / "bench/peers"
SMALL = "--layers 1 --width 64 --heads 1 --mlp 256 --batch 256 --max-doc 64 --steps 8".split()


def run(script, *options):
    path = os.pathsep.join([str(Path(musec.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(PEERS / script), *map(str, options)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def program():
    found = os.environ.get("MUSEC") or Path(musec.library_path()).resolve().parent / "musec"
    if not os.access(found, os.X_OK):
        pytest.skip("there is no program beside the library")
    return found


@pytest.mark.parametrize(
    "options",
    [
        ["--optimizer", "soft-musec"],
        ["--optimizer", "muon", "--lr", "0.02", "--nesterov", "yes", "--weight-decay", "0.1"],
        "--optimizer spectra --grad-reduction mean --threshold rms:1 --update-scale unit".split(),
    ],
    ids=["soft-musec", "muon", "spectra"],
)
def test_a_run_in_pytorch_is_that_of_the_program(options):
    """Both sum in float32, in other orders; eight steps leave 1e-6."""
    words = ["--musec", program(), "--device", "cpu", "--bound", "1e-5", *SMALL, *options]
    done = run("train_torch.py", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["steps"] == 8 and row["largest_difference"] <= 1e-5
    assert row["last_losses"][0] < 5.6  # it has learnt something: log 320 = 5.77


def test_a_run_that_differs_is_seen():
    words = ["--musec", program(), "--device", "cpu", "--bound", "1e-5", *SMALL]
    done = run("train_torch.py", *words, "--precision", "bf16", "--musec-precision", "f32")
    assert done.returncode == 1 and "EXCEEDED" in done.stdout, done.stdout + done.stderr


def test_settings_that_pytorchs_model_lacks_are_refused():
    done = run("train_torch.py", "--musec", program(), *SMALL, "--head-gates", "yes")
    assert done.returncode != 0 and "head_gates is 'yes', not 'no'" in done.stderr, done.stderr


def test_training_on_a_cpu_takes_turns():
    """Both sides do the same work, so their times are of one order."""
    words = ["--musec", program(), "--preset", "pico", "--threads", "1", "--rounds", "1"]
    done = run("cpu_torch.py", *words, "--rows", "eager", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(row["what"], row["name"]) for row in rows] == [
        (what, name)
        for what in ("forward + backward", "step, muon")
        for name in ("musec", "PyTorch, eager")
    ]
    assert all(row["cpu_ms"] > 0.0 and 0.05 < row["cpu_ratio"] < 20.0 for row in rows)


def test_packages_of_others_that_are_missing_are_named(tmp_path):
    done = run("optimizer_torch.py", "--check", "--peers", tmp_path)
    for name in ("dion", "emerging_optimizers", "gram_newton_schulz"):
        assert any(line.startswith(name) for line in done.stdout.splitlines()), done.stdout
    if not done.returncode == 0:  # else they are installed here
        assert "ModuleNotFoundError: No module named" in done.stdout
