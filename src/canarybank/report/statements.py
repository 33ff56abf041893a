"""Say what every figure stands on, and what none of them can tell."""

from canarybank.experiment.results import Results

__all__ = ["assumptions", "limits"]


def assumptions(results: Results) -> list[str]:
    """Return what the claims of a run stand on."""
    pairs = results.attacks[0].headline
    return [
        f"Neighbours differ by adding or removing one user, with all of that user's records; delta is {pairs.delta:g}.",
        f"The {pairs.method} bound assumes {pairs.assumption}.",
        (
            "Bank, probes, score, threshold, method, number of trials and alpha were fixed in the commitment, on "
            "disk before the first evaluation trial. Anybody who saw its hash before the results can check that."
        ),
        (
            "Each attack's headline is a claim of its own at level alpha. The verdict covers all attacks together, "
            "so it gives each an even share of alpha. A pooled bound stands beside a headline as one more claim; the "
            "larger of two claims is not a claim."
        ),
        (
            "Exact figures (mechanism, attack, rule, rates) are computed from the law of the score for these "
            "evaluation users, by Fourier inversion with certified ends. They hold for the mechanism as configured, "
            "not for code that differs from it."
        ),
    ]


def limits(results: Results) -> list[str]:
    """Return what the claims of a run do not say."""
    nonce = any(attack.is_on_nonces for attack in results.attacks)
    return [
        (
            "Bounds are lower bounds. A small one means that these attacks, with this many trials, showed little; a "
            "stronger attack or more trials may show more."
        ),
        (
            "One release is audited, by a server that shapes the bank and sees the release. Several rounds, "
            "colluding users and side channels such as timing, logs or the generator's own memory lie outside."
        ),
        (
            "The release is simulated by this program with the given parameters. A fault in another implementation "
            "shows only when that implementation makes the releases."
        ),
        (
            "Background and rates are those of the users at hand: another population moves the attack's rungs, while "
            "the mechanism's rung stays."
        ),
        *(
            ["Nonce canaries are no people: they show what the mechanism allows, not what a user risks."]
            if nonce
            else []
        ),
    ]
