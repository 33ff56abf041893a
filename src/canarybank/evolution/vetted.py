"""Bar, before the vote, what vetting names in a bank; and say which banks it can judge."""

import numpy as np

from canarybank.defend import Vetting
from canarybank.defend.vetting import SMALLEST
from canarybank.errors import InputError
from canarybank.mechanism import Bank

__all__ = ["bar_named", "smallest_bank"]


def smallest_bank(k: int) -> int:
    """Return the fewest entries of a bank that can be vetted for records with k votes."""
    return max(SMALLEST, 2 * k - 1)


def bar_named(bank: Bank, vetting: Vetting, k: int) -> Bank:
    """Return a bank in which nobody votes for what vetting names.

    Records have k votes, so k entries that are not reserved stay open: if vetting names more, those with the highest
    scores are barred.
    """
    if bank.texts is None:
        raise InputError("A bank without texts cannot be vetted; build it with Bank(vectors, texts).")
    verdict = vetting.vet(bank.texts, bank.vectors, k=k)
    named = np.array(vetting.barred_by(verdict), dtype=np.int64)
    worst = named[np.argsort(-verdict.scores[named], kind="stable")]
    probes = worst[np.isin(worst, bank.reserved)]
    others = worst[~np.isin(worst, bank.reserved)]
    return bank.bar([*probes, *others[: max(0, len(bank.base) - k)]])
