"""The structures of the package are those of the C header, and errors keep their words."""

from __future__ import annotations

import ctypes as c
import os
import shutil
import subprocess
import sys

import pytest

import musec
from musec import _library as L
from musec import _registry as R

from conftest import ROOT


def structures():
    found = {
        "musec_view": L.View,
        "musec_clip_config": L.ClipConfig,
        "musec_clip_report": L.ClipReportC,
        "musec_spectrum_stats": L.SpectrumStats,
        "musec_optim_config": R.OptimConfig,
    }
    if _has_torch():
        from musec.torch import _abi as E
        from musec.torch import _exchange
        from musec.torch.blocks import Block

        found.update(
            {
                "musec_block": Block,
                "musec_param": E.ParamC,
                "musec_step_args": E.StepArgs,
                "musec_attention": E.AttentionC,
                "musec_optim_report": E.ReportC,
                "musec_allocator": E.AllocatorC,
                "musec_loan": E.LoanC,
                "musec_dltensor": _exchange.TensorC,
                "musec_tensor_inspection": _exchange.InspectionC,
            }
        )
    return found


def _has_torch():
    try:
        import torch  # noqa: F401

        return True
    except ImportError:
        return False


def test_structures_are_those_of_the_header(tmp_path):
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler or not (ROOT / "include").is_dir():
        pytest.skip("no C compiler, or no header, to compare with")
    lines = ["#include <musec/dlpack.h>", "#include <stdio.h>", "int main(void) {"]
    want = []
    for name, structure in structures().items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        want.append(f"{name} {c.sizeof(structure)}")
        for field, *_ in structure._fields_:
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
            want.append(f"{name}.{field} {getattr(structure, field).offset}")
    lines.append("return 0; }")
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    source.write_text("\n".join(lines))
    subprocess.run([compiler, f"-I{ROOT / 'include'}", "-o", program, source], check=True)
    have = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert have.splitlines() == want


def test_versions_agree():
    header = (ROOT / "include/musec/musec.h").read_text()
    if not header:
        pytest.skip("no header here")
    assert musec.version() == musec.__version__


def test_errors_have_types_and_words():
    with pytest.raises(ValueError, match="did you mean"):
        musec.clip([[1.0]], 1.0, "harp")
    with pytest.raises(musec.InvalidArgument) as caught:
        musec.clip([[1.0]], -1.0)
    assert caught.value.status == "EINVAL"
    with pytest.raises(musec.NonFinite):
        musec.clip([[float("nan")]], 1.0)


def test_a_missing_library_says_what_to_do():
    environment = {**os.environ, "MUSEC_LIBRARY": "/nowhere/libmusec.so"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path[:0] = {sys.path!r}\nimport musec; musec.version()",
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "pip install ." in done.stderr


def test_the_library_may_be_loaded_before_pytorch_is_imported():
    pytest.importorskip("torch")
    program = (
        "import musec; musec.clip([[3.0]], 1.0)\n"
        "import torch, musec.torch\n"
        "w = torch.nn.Parameter(torch.ones(2, 2)); w.grad = torch.eye(2)\n"
        "musec.torch.SoftMusec([w], lr=0.1).step()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_info():
    done = subprocess.run(
        [sys.executable, "-m", "musec", "info", "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"soft-musec"' in done.stdout and '"opens": true' in done.stdout


def test_after_a_fork():
    """A child makes contexts of its own: those of its parent have no threads there."""
    musec.clip([[3.0]], 1.0)
    pid = os.fork()
    if pid == 0:
        ok = abs(float(musec.clip([[3.0]], 1.0, "hard")[0][0]) - 1.0) <= 1e-12
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
