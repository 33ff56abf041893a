"""Try half precision on this machine's processor in a child process, before the process that matters uses it.

Some virtual machines announce instructions (AMX, AVX-512 FP16) that they do not run. Torch believes them, and its first
product of half-precision matrices kills the process by an illegal instruction, which no exception handler can catch. So
a child computes the layers of a small transformer first. If it dies, hangs or fails, the precision is refused.
"""

import signal
import subprocess
import sys
from functools import cache

from canarybank.encode.protocol import Precision
from canarybank.errors import InputError

__all__ = ["check_half_precision"]

_SECONDS = 120.0
# The layers of a sentence encoder, on one text and on a batch: torch chooses its kernels by shape.
_TRIAL = """
import sys
import torch
from torch.nn import functional as F
kind, width, heads = getattr(torch, sys.argv[1]), 384, 12
with torch.inference_mode():
    for texts, tokens in ((1, 7), (32, 64)):
        states = torch.ones(texts, tokens, width, dtype=kind) / width
        weights, bias = torch.ones(4 * width, width, dtype=kind) / width, torch.zeros(4 * width, dtype=kind)
        split = states.view(texts, tokens, heads, width // heads).transpose(1, 2)
        for mask in (None, torch.zeros(texts, 1, tokens, tokens, dtype=kind)):
            F.scaled_dot_product_attention(split, split, split, attn_mask=mask)
        hidden = F.gelu(F.linear(states, weights, bias))
        states = F.layer_norm(F.linear(hidden, weights.T), (width,))
        split @ split.transpose(2, 3)
        assert torch.isfinite(states.float().mean(1)).all(), "the result is not finite"
"""


def check_half_precision(precision: Precision) -> None:
    """Refuse half precision where this machine's processor cannot compute in it. Float32 always passes."""
    if precision is not Precision.FLOAT32 and (fault := _fault(precision)):
        raise InputError(
            f"The precision {precision} cannot be used on this processor: a trial in a child process {fault}. Set the "
            "precision to float32, or use a GPU. If the processor is a virtual one that announces instructions it does "
            "not have, ONEDNN_MAX_CPU_ISA=AVX512_CORE in the environment may help."
        )


@cache
def _fault(precision: Precision) -> str | None:
    """Return how the trial went wrong, or None. A process asks once for each precision."""
    command = [sys.executable, "-c", _TRIAL, precision.value]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return f"did not end within {_SECONDS:g} s"
    except OSError as error:
        return f"did not start ({error})"
    if done.returncode < 0:
        return f"was killed by {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return f"failed ({done.stderr.strip().rpartition(chr(10))[2] or f'exit code {done.returncode}'})"
    return None
