#!/usr/bin/env python3
"""cpu_torch.py VENV - makes a virtual environment with NumPy, pytest and PyTorch for tests on a CPU.

PyPI has, for Linux on x86-64, only the build for CUDA, which asks for 3 GB of NVIDIA's libraries that
a CPU never uses.  So the wheel (0.5 GB) is installed alone, and in place of each library that it is linked with a stub is made that
has the names the loader asks for and traps if one is called.  The run time libcudart, 3 MB, is the
real one, for it is called to find that there is no GPU.

Exits with 77, and says why, where this cannot be done: no network, no compiler for the stubs.
"""

from __future__ import annotations

import collections
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

TORCH = "2.11.0"
# what importing it takes
NEEDED = [
    "numpy",
    "pytest",
    "typing_extensions",
    "filelock",
    "sympy",
    "networkx",
    "jinja2",
    "fsspec",
    "setuptools<81",
]
CUDA_LIBRARY = re.compile(r"lib(cu|nv|nccl)")


def skip(why: str) -> None:
    print(f"skipped: {why}")
    raise SystemExit(77)


def run(*command: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], text=True, **options)


def pip(python: Path, *words: str) -> None:
    quiet = ["-q", "--disable-pip-version-check", "--retries", "1"]
    done = run(python, "-m", "pip", *words[:1], *quiet, *words[1:], capture_output=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no words"])[-1]
        skip(f"pip {' '.join(words)} failed: {last}")


def undefined(library: str) -> list[tuple[str, str]]:
    """The names that a library takes from others, each with its version."""
    listed = run("nm", "-D", "--undefined-only", library, capture_output=True).stdout
    return [tuple(line.split()[-1].partition("@")[::2]) for line in listed.splitlines()]


def make_stubs(site: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler or not shutil.which("nm") or not shutil.which("readelf"):
        skip("a C compiler and binutils are needed to stand in for NVIDIA's libraries")
    libraries = glob.glob(str(site / "torch/lib/*.so*"))
    wanted, names = set(), collections.defaultdict(set)
    for library in libraries:
        dynamic = run("readelf", "-d", library, capture_output=True).stdout
        found = re.findall(r"NEEDED.*\[([^\]]+)\]", dynamic)
        wanted |= {name for name in found if CUDA_LIBRARY.match(name)}
        for name, version in undefined(library):
            names[version.lstrip("@")].add(name)
    here = {path.name for path in site.glob("nvidia/**/*.so*")}
    home = site / "torch/lib"
    for library in sorted(wanted - here - {"libcuda.so.1"}):
        version = library if library in names else "NVSHMEM" if "nvshmem" in library else ""
        mine = [
            n for n in names[version] if version or re.match(r"nccl|cuFile|cufile|cusparseLt", n)
        ]
        source, script = home / "stub.c", home / "stub.map"
        source.write_text(
            "".join(f"void {n}(void) {{ __builtin_trap(); }}\n" for n in sorted(mine))
        )
        script.write_text(f"{version} {{ global: *; }};\n")
        command = [
            compiler,
            "-w",
            "-fno-builtin",
            "-shared",
            "-fPIC",
            "-o",
            home / library,
            f"-Wl,-soname,{library}",
            f"-Wl,--version-script={script}",
            source,
        ]
        if run(*command).returncode != 0:
            skip(f"a stub of {library} could not be made")
        source.unlink()
        script.unlink()


def install_torch(python: Path, site: Path) -> None:
    if platform.machine() != "x86_64":
        pip(python, "install", f"torch=={TORCH}")  # its wheels there are for CPUs
        return
    pip(python, "install", "--no-deps", f"torch=={TORCH}")
    metadata = next(site.glob("torch-*.dist-info")) / "METADATA"
    major = re.search(r"nvidia-cudnn-cu(\d+)", metadata.read_text())
    toolkit = re.search(r"cuda-toolkit.*==([\d.]+)", metadata.read_text())
    version = f"=={toolkit[1].rsplit('.', 1)[0]}.*" if toolkit else ""
    name = "nvidia-cuda-runtime" + ("" if int(major[1]) >= 13 else f"-cu{major[1]}")
    pip(python, "install", "--no-deps", name + version)
    make_stubs(site)


def main() -> None:
    venv = Path(sys.argv[1]).resolve()
    python, stamp = venv / "bin/python", venv / f"torch-{TORCH}"
    if stamp.exists() and run(python, "-c", "import torch, pytest").returncode == 0:
        return
    shutil.rmtree(venv, ignore_errors=True)
    if run(sys.executable, "-m", "venv", venv, capture_output=True).returncode != 0:
        skip("python3 -m venv does not work here: scripts/setup installs python3-venv")
    pip(python, "install", *NEEDED)
    site = Path(
        run(
            python, "-c", "import site; print(site.getsitepackages()[0])", capture_output=True
        ).stdout.strip()
    )
    install_torch(python, site)
    done = run(python, "-c", "import torch; torch.linalg.svd(torch.eye(3))", capture_output=True)
    if done.returncode != 0:
        skip(f"PyTorch does not load: {done.stderr.strip().splitlines()[-1:]}")
    stamp.touch()


if __name__ == "__main__":
    main()
