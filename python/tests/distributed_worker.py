"""One process of test_distributed.py: distributed_worker.py CASE RANK WORLD FILE DIRECTORY."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import musec.torch as mt
from musec.torch import _shared, blocks

WORLD_BATCH = 24  # of 1, 2 or 3 processes


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(12, 18),
        torch.nn.Tanh(),
        torch.nn.Linear(18, 30),  # fused: three matrices
        torch.nn.Tanh(),
        torch.nn.Linear(30, 5),
    )


def groups(net):
    """Options of their own, fused weights, AdamW."""
    named = dict(net.named_parameters())
    return [
        {"params": [("0.weight", named["0.weight"]), ("4.weight", named["4.weight"])]},
        {"params": [("2.weight", named["2.weight"])], "blocks": blocks.split(3), "lr": 0.01},
        {
            "params": [(n, p) for n, p in named.items() if n.endswith("bias")],
            "role": "adamw",
            "lr": 0.002,
            "weight_decay": 0.1,
        },
    ]


def batch(t):
    g = torch.Generator().manual_seed(t)
    return torch.randn(WORLD_BATCH, 12, generator=g), torch.randn(WORLD_BATCH, 5, generator=g)


def train(net, optimizer, steps, first=0, rank=0, world=1):
    for t in range(first, first + steps):
        x, y = (z.chunk(world)[rank] for z in batch(t))
        optimizer.zero_grad()
        (net(x) - y).square().mean().backward()
        optimizer.step()


def make(net, **options):
    return mt.SoftMusec(groups(net), lr=0.02, weight_decay=0.1, **options)


def single(steps):
    net = model()
    train(net, make(net), steps)
    return {k: v.detach() for k, v in net.named_parameters()}


def full(net):
    found = {}
    for name, p in net.named_parameters():
        p = p.detach()
        found[name.removeprefix("module.")] = p.full_tensor() if hasattr(p, "full_tensor") else p
    return found


def compare(net, steps):
    """1e-5: the mean over two halves and over the whole differ by float32's rounding, 6e-8, which
    100 steps of a clip that divides by the momentum's size let grow."""
    want = single(steps)
    for name, value in full(net).items():
        error = float((value - want[name]).norm() / want[name].norm())
        assert error <= 1e-5, (name, error)


def ddp(rank, world, share):
    net = torch.nn.parallel.DistributedDataParallel(model())
    options = {"share": True} if share else {}
    optimizer = make(net.module, **options)
    train(net, optimizer, 60, 0, rank, world)
    saved = optimizer.state_dict()
    assert all("momentum_buffer" in saved["state"][i] for i in range(3))
    other = torch.nn.parallel.DistributedDataParallel(model())
    other.load_state_dict(net.state_dict())
    resumed = make(other.module, **options)
    resumed.load_state_dict(saved)
    train(other, resumed, 40, 60, rank, world)
    for group in optimizer.param_groups:
        group["seed"] = 1  # engines are made anew, and state moves
    train(net, optimizer, 40, 60, rank, world)
    compare(net, 100)
    for name, value in full(other).items():
        assert torch.equal(value, full(net)[name]), name
    if share:
        owned = sum(len(engine.entries) for engine in optimizer._engines)
        assert owned < 6, "some of the matrices are another's"


def sharded(mesh=None):
    from torch.distributed.fsdp import fully_shard

    net = model()
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net


def fsdp(rank, world):
    _shared.BUCKET_BYTES = 2000  # several buckets
    net = sharded()
    optimizer = make(net)
    train(net, optimizer, 60, 0, rank, world)
    for group in optimizer.param_groups:
        group["seed"] = 1  # engines are made anew, and state moves
    train(net, optimizer, 40, 60, rank, world)
    compare(net, 100)
    assert optimizer.state_dict()["state"][0]["step"] == 100


def factors(rank, world):
    """State that has not the shape of its parameter, with its owner and on the way to others."""
    for make_net in (sharded, lambda: torch.nn.parallel.DistributedDataParallel(model())):
        options = {"share": True} if make_net is not sharded else {}
        runs = []
        for _ in range(2):
            net = make_net()
            params = net.module if options else net
            optimizer = mt.SOAP(groups(params), lr=0.01, precondition_every=2, **options)
            if runs:
                first, saved = runs[0]
                net.load_state_dict(first)
                optimizer.load_state_dict(saved)
                train(net, optimizer, 4, 5, rank, world)
                runs.append(full(net))
                continue
            train(net, optimizer, 5, 0, rank, world)
            runs.append((copy.deepcopy(net.state_dict()), copy.deepcopy(optimizer.state_dict())))
            train(net, optimizer, 4, 5, rank, world)
            want = full(net)
            square = next(p for p in params.parameters() if p.ndim == 2).shape
            assert runs[0][1]["state"][0]["left"].shape[-1] <= max(square)
        for name, value in runs[1].items():
            assert torch.equal(value, want[name]), name


def hsdp(rank, world):
    """Replicas of a model that is cut: here two replicas of one part each."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("replicate", "shard"))
    net = sharded(mesh)
    optimizer = make(net)
    train(net, optimizer, 30, 0, rank, world)
    compare(net, 30)
    assert optimizer.state_dict()["state"][0]["momentum_buffer"].shape == net[0].weight.shape


def save(rank, world, directory):
    """A checkpoint after 60 steps, which `load` takes with another number of processes."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net = sharded()
    optimizer = make(net)
    train(net, optimizer, 60, 0, rank, world)
    weights, state = get_state_dict(net, optimizer)
    dcp.save({"model": weights, "optim": state}, checkpoint_id=directory)


def load(rank, world, directory):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    net = sharded()
    optimizer = make(net)
    weights, state = get_state_dict(net, optimizer)
    dcp.load({"model": weights, "optim": state}, checkpoint_id=directory)
    set_state_dict(net, optimizer, model_state_dict=weights, optim_state_dict=state)
    assert optimizer.state_dict()["state"][0]["step"] == 60
    train(net, optimizer, 40, 60, rank, world)
    compare(net, 100)


def refused(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (world,))
    p = torch.nn.Parameter(distribute_tensor(torch.randn(8, 8), mesh, [Shard(1)]))
    try:
        mt.SoftMusec([p])
        raise AssertionError("columns were taken")
    except ValueError as e:
        assert "Shard(0)" in str(e) and "adamw" in str(e)
    optimizer = mt.SoftMusec([{"params": [p], "role": "adamw"}], lr=0.1)
    p.grad = distribute_tensor(torch.ones(8, 8), mesh, [Shard(1)])
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["exp_avg"].shape == (8, 8)


def nonfinite(rank, world):
    """A NaN in the rows of one process stops the step of all."""
    net = sharded()
    optimizer = make(net, nonfinite="skip")
    train(net, optimizer, 2, 0, rank, world)
    before = full(net)
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    if rank == world - 1:
        next(net.parameters()).grad.to_local().fill_(float("nan"))
    optimizer.step()
    for name, value in full(net).items():
        assert torch.equal(value, before[name]), name


def main():
    case, rank, world, file, directory = sys.argv[1], *map(int, sys.argv[2:4]), *sys.argv[4:6]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=world)
    for one in case.split(","):
        print(f"rank {rank}: {one}", flush=True)
        if one in ("ddp", "share"):
            ddp(rank, world, one == "share")
        elif one in ("save", "load"):
            globals()[one](rank, world, directory)
        else:
            globals()[one](rank, world)
    dist.barrier()
    dist.destroy_process_group()
    Path(directory, f"{case}.{rank}.done").touch()
    sys.stdout.flush()
    os._exit(0)  # else a thread of PyTorch's that still runs may end the process by std::terminate


if __name__ == "__main__":
    main()
