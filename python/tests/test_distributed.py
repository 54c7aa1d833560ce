"""DDP and FSDP2 with gloo on this machine: two processes equal one with the joined batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

WORKER = Path(__file__).with_name("distributed_worker.py")


def run(case, directory, world=2):
    import musec

    path = os.pathsep.join([str(Path(musec.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    meeting = directory / f"meeting.{case}.{world}"
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    environment["CUDA_VISIBLE_DEVICES"] = ""  # gloo's processes are on the CPU
    command = [sys.executable, str(WORKER), case]
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(world), str(meeting), str(directory)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    words = [worker.communicate(timeout=300)[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers), "\n".join(words)


def test_two_processes_are_one(tmp_path):
    run("ddp,share,fsdp,factors,hsdp,refused,nonfinite,save", tmp_path)
    run("load", tmp_path, 3)
    run("load", tmp_path, 1)
