"""A user's git repository with a workload, ``my_job.training:workload``."""

import subprocess
from pathlib import Path

# torch is imported by the builders, which fake ranks do not call.
_JOB = """
import time
from fixtures.matrix.workloads import Workload

def model():
    from torch import nn
    return nn.Linear(64, 64)

def sample():
    import torch
    return (torch.randn(64),)

def loss(model, inputs):
    time.sleep(STEP_S)
    return model(inputs).square().mean()

def optimizer(parameters):
    import torch
    return torch.optim.SGD(parameters, lr=0.001)

workload = Workload(name="job", batch_size=2, model=model, sample=sample, loss=loss, optimizer=optimizer)
"""


def job(step_s: float = 0.02) -> str:
    """Return the module, with steps of this length."""
    return _JOB.replace("STEP_S", str(step_s))


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def checkout(top: Path, *, committed: str, now: str) -> Path:
    """A checkout, with the text of ``my_job/training.py`` in its last commit and in the working tree."""
    (top / "src/my_job").mkdir(parents=True)
    (top / "src/my_job/__init__.py").touch()
    (top / "src/my_job/training.py").write_text(committed)
    (top / ".gitignore").write_text("__pycache__/\n")
    git(top, "init", "--quiet")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message=first")
    hook = top / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {top}/hook_has_run\n")
    hook.chmod(0o755)
    (top / "src/my_job/training.py").write_text(now)
    return top
