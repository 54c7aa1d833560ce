"""Source archives, types and the example script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import musec

from conftest import ROOT

PACKED = not (ROOT / "pyproject.toml").exists()


def package_path():
    return str(Path(musec.__file__).parents[1])


@pytest.mark.skipif(PACKED, reason="a source tree is needed to make source archives")
def test_a_source_archive_is_whole(tmp_path):
    import tarfile

    sys.path.insert(0, str(ROOT / "python"))
    import build_backend as backend

    name = backend.build_sdist(tmp_path)
    with tarfile.open(tmp_path / name) as archive:
        names = {n.split("/", 1)[1] for n in archive.getnames() if "/" in n}
    assert {"PKG-INFO", "pyproject.toml", "CMakeLists.txt", "src/optim/step.c"} <= names
    assert not any("__pycache__" in n or n.startswith("build") for n in names)


def test_types_are_of_the_registry():
    pytest.importorskip("torch")
    from musec.torch import _stubs

    stored = (Path(musec.__file__).parent / "torch/__init__.pyi").read_text()
    assert stored == _stubs.text(), "run python -m musec.torch._stubs"


@pytest.mark.parametrize("optimizer", ["soft-musec", "muon"])
def test_the_example_runs(optimizer):
    pytest.importorskip("torch")
    script = ROOT / "examples/train_gpt.py"
    command = [
        sys.executable,
        str(script),
        "--steps",
        "12",
        "--layers",
        "2",
        "--width",
        "48",
        "--heads",
        "2",
        "--context",
        "32",
        "--device",
        "cpu",
        "--optimizer",
        optimizer,
    ]
    path = os.pathsep.join([package_path(), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    losses = [
        float(line.split()[3].rstrip(",")) for line in done.stdout.splitlines() if "loss" in line
    ]
    # untrained, the loss is about log 256 = 5.5
    assert losses[-1] < losses[0] - 0.5
    assert "c_attn" in done.stderr
