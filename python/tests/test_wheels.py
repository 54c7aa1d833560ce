"""Wheels: what they hold, that they need no compiler, and which of their libraries is taken."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import musec
from musec import _library as L

from conftest import ROOT

PACKED = not (ROOT / "pyproject.toml").exists()
PLAIN = {k: v for k, v in os.environ.items() if k not in ("MUSEC_LIBRARY", "PYTHONPATH")}


@pytest.mark.skipif(PACKED, reason="a source tree is needed to make wheels")
def test_a_wheel_holds_what_it_needs(tmp_path):
    sys.path.insert(0, str(ROOT / "python"))
    import build_backend as backend

    library = Path(musec.library_path())
    name = backend.build_wheel(tmp_path, {"library": str(library)})
    assert name.startswith(f"musec-{musec.__version__}-py3-none-manylinux_2_")
    wheel = zipfile.ZipFile(tmp_path / name)
    names = wheel.namelist()
    assert {"musec/_lib/libmusec.so", "musec/py.typed", "musec/torch/__init__.pyi"} <= set(names)
    record = wheel.read(f"musec-{musec.__version__}.dist-info/RECORD").decode()
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(record))}
    assert set(rows) == set(names)
    for name in names:
        digest, size = rows[name]
        if digest:
            data = wheel.read(name)
            want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={want}" and int(size) == len(data)
    held = {Path(n).name for n in names if n.startswith("musec/_lib/")}
    for path in backend._companions(library):
        assert path in held
    wheel.extractall(tmp_path / "installed")
    environment = {k: v for k, v in os.environ.items() if k not in ("MUSEC_LIBRARY", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "musec", "info"],
        env={**environment, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(tmp_path / "installed/musec/_lib/libmusec.so") in done.stdout


@pytest.mark.skipif(PACKED, reason="a source tree is needed to make wheels")
def test_a_wheel_installs_where_there_is_no_compiler(tmp_path):
    """In a virtual environment of its own, with nothing else in PATH."""
    sys.path.insert(0, str(ROOT / "python"))
    import build_backend as backend

    name = backend.build_wheel(tmp_path, {"library": musec.library_path()})
    venv = tmp_path / "venv"
    python = venv / "bin/python"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    # what musec depends on comes from here, not from a network
    (site / "theirs.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    words = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    words += ["--force-reinstall", "--disable-pip-version-check", tmp_path / name]
    bare = {**PLAIN, "PATH": str(venv / "bin")}
    assert not any(shutil.which(tool, path=bare["PATH"]) for tool in ("cc", "gcc", "cmake", "nvcc"))
    subprocess.run(words, env=bare, check=True)
    program = (
        "import numpy, musec\n"
        "assert abs(musec.clip(numpy.array([[3.0]]), 1.0, 'hard')[0][0] - 1.0) < 1e-12\n"
        "try:\n"
        "    import torch\n"
        "except ImportError:\n"
        "    pass\n"
        "else:\n"
        "    import musec.torch\n"
        "    w = torch.nn.Parameter(torch.ones(2, 2))\n"
        "    w.grad = torch.eye(2)\n"
        "    musec.torch.SoftMusec([w], lr=0.1).step()\n"
        "    assert w[0, 0] < 1 and w[0, 1] == 1\n"
        "print(musec.library_path())"
    )
    done = subprocess.run(
        [python, "-c", program], env=bare, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(site / "musec/_lib/libmusec.so")


# ---- wheels with CUDA ----------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path):
    """A package with libraries by these names, all the same one, beside a PyTorch that says no more
    than its CUDA."""

    def make(names, cuda):
        site = tmp_path / "site"
        source = Path(musec.__file__).parent
        shutil.copytree(
            source, site / "musec", ignore=shutil.ignore_patterns("_lib", "__pycache__")
        )
        (site / "musec/_lib").mkdir()
        for name in names:
            (site / "musec/_lib" / name).symlink_to(Path(musec.library_path()).resolve())
        (site / "torch").mkdir()
        (site / "torch/__init__.py").write_text("from . import version\n")
        text = f"from typing import Optional\ncuda: Optional[str] = {cuda!r}\n"
        (site / "torch/version.py").write_text(text)
        return site

    return make


def answer(site, program):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**PLAIN, "PYTHONPATH": str(site)},
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("when", ["import torch, musec", "import musec"])
@pytest.mark.parametrize(
    "cuda,taken",
    [
        ("13.0", "libmusec-cu13.so"),
        ("12.8", "libmusec-cu12.so"),
        ("14.1", "libmusec.so"),
        (None, "libmusec.so"),
    ],
)
def test_pytorchs_cuda_decides(installed, when, cuda, taken):
    """Whether PyTorch is imported before the library is loaded, or after."""
    site = installed(["libmusec.so", "libmusec-cu12.so", "libmusec-cu13.so"], cuda)
    assert answer(site, f"{when}; print(musec.library_path())") == str(site / "musec/_lib" / taken)


def test_a_wheel_without_cuda_asks_nobody(installed):
    site = installed(["libmusec.so"], "13.0")
    found = answer(site, "import musec; print(musec.library_path())")
    assert found == str(site / "musec/_lib/libmusec.so")


def test_a_cuda_that_the_wheel_lacks_is_named(installed):
    site = installed(["libmusec.so", "libmusec-cu13.so"], "12.8")
    program = (
        "from musec import _library as L\n"
        "try:\n    L.context('cuda')\nexcept L.Error as e:\n    print(e)"
    )
    words = answer(site, program)
    if not words:
        pytest.skip("this library without a name for CUDA opens a GPU")
    assert "has libraries for CUDA 13, and PyTorch here is of CUDA 12" in words


@pytest.mark.parametrize("cuda,versions", [("13.0", ("13", "12")), ("12.8", ("12", "11"))])
def test_cudas_libraries_are_those_of_pytorch(tmp_path, monkeypatch, cuda, versions):
    """Wheels of two versions of CUDA lie side by side."""
    for name in (
        "cu13/lib/libcublasLt.so.13",
        "cu13/lib/libcusolver.so.12",
        "cublas/lib/libcublasLt.so.12",
        "cusolver/lib/libcusolver.so.11",
    ):
        path = tmp_path / "nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    torch = type(sys)("torch")
    torch.__file__ = str(tmp_path / "torch/__init__.py")
    torch.version = type("version", (), {"cuda": cuda})
    opened = []
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(L, "_cuda_libraries", [])
    monkeypatch.setattr(L.c, "CDLL", lambda path, mode: opened.append(Path(path).name))
    L._take_pytorchs_cuda()
    assert opened == [f"libcublasLt.so.{versions[0]}", f"libcusolver.so.{versions[1]}"]
