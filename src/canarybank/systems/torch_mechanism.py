"""Draw literal releases on a torch device.

The law is that of ``BankSystem``: coins, a sum of whole contributions, and noise on every coordinate. The stream is
another one. Every coin and every Gaussian is a function of a seed and its own number, in whole-number arithmetic: so
coins are the same on every device, and releases are the same but for the rounding of sums and of logarithms.
"""

import math
from dataclasses import dataclass, fields
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.sentence import pick_double_device
from canarybank.seeds import GOLDEN, mixed
from canarybank.systems.mechanism import BankSystem

__all__ = ["TorchSystem"]

CHUNK_VALUES = {"cpu": 1 << 21, "cuda": 1 << 26}
_BITS = 53
_TABLES: "WeakKeyDictionary[TorchSystem, Any]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class TorchSystem(BankSystem):
    """Our own mechanism with a frozen bank, whose releases are drawn on a torch device; left out, the best one here."""

    device: str | None = None

    @classmethod
    def of(cls, system: BankSystem, device: str | None = None) -> "TorchSystem":
        """Return the same system on a device."""
        return cls(**{each.name: getattr(system, each.name) for each in fields(BankSystem)}, device=device)

    def release(self, eligible: bool, size: int, rng: np.random.Generator) -> NDArray[np.float64]:  # noqa: FBT001
        """Sample participants, sum their contributions, add noise; an eligible canary tosses a coin of its own."""
        import torch

        device = pick_double_device(self.device)
        if self not in _TABLES:
            _TABLES[self] = torch.from_numpy(self.contributions.toarray()).to(device)
        table, q = _TABLES[self], self.mechanism.q
        users, coordinates = table.shape
        coins, noise, own = rng.integers(-(2**63), 2**63, size=3, dtype=np.int64).tolist()
        releases = np.empty((size, coordinates))
        step = max(1, CHUNK_VALUES.get(device.partition(":")[0], CHUNK_VALUES["cuda"]) // users)
        with torch.inference_mode():
            canary = torch.from_numpy(np.asarray(self.canary, dtype=np.float64)).to(device)
            for start in range(0, size, step):
                trials = min(step, size - start)
                part = _taking_part(coins, start, trials, users, q, device) @ table
                part += self.mechanism.noise * _gaussians(noise, start, trials, coordinates, device)
                if eligible:
                    chance = q if self.participation is None else self.participation
                    part += _taking_part(own, start, trials, 1, chance, device) * canary
                releases[start : start + trials] = part.cpu().numpy()
        return releases


def _taking_part(seed: int, first: int, trials: int, users: int, chance: float, device: str) -> Any:
    """Return a table of zeros and ones, each one with this probability; 53 bits decide, as numpy's uniforms do."""
    return (_words(seed, first, trials, users, device) < math.ceil(chance * 2**_BITS)).double()


def _gaussians(seed: int, first: int, trials: int, count: int, device: str) -> Any:
    """Return standard Gaussians by Box and Muller's formula; none is beyond 8.7, which has a probability of 1e-17."""
    import torch

    words = (_words(seed, first, trials, 2 * count, device).double() + 0.5) * 2.0**-_BITS
    radius, angle = torch.sqrt(-2 * torch.log(words[:, :count])), 2 * math.pi * words[:, count:]
    return radius * torch.cos(angle)


def _words(seed: int, first: int, rows: int, columns: int, device: str) -> Any:
    """Return 53 random bits for each cell, rows numbered from ``first`` on; a cell's bits follow from its number."""
    import torch

    start = mixed(torch.tensor(seed, device=device))
    numbers = torch.arange(first * columns + 1, (first + rows) * columns + 1, device=device)
    return ((mixed(start + GOLDEN * numbers) >> (64 - _BITS)) & (2**_BITS - 1)).view(rows, columns)
