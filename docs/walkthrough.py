# %% [markdown]
# # Walkthrough: canarybank from Python
#
# Everything that the commands do is a function. This page is a script, `docs/walkthrough.py`: the tests run it, and
# what it printed stands below each cell. It needs the light install and no network.

# %% [markdown]
# ## What does a mechanism promise?
#
# A mechanism is five numbers: each record votes for its `k` nearest candidate texts, a user's votes are cut to the
# length `clip`, noise of `sigma` times the clip is added, and each user takes part with probability `q`. One user more
# or fewer changes every probability by a factor of at most e^epsilon, plus `delta`, which is very small. That epsilon
# is computed. No data and no trial is needed.

# %%
import canarybank

mechanism = canarybank.Mechanism(k=5, clip=0.1, sigma=1.0, q=0.1, delta=1e-5)
print(f"exact epsilon of one release:  {canarybank.epsilon(mechanism):.4f}")
print(f"with twice the noise:          {canarybank.epsilon(canarybank.Mechanism(sigma=2.0)):.4f}")
print("is a claim of 1.0 false?      ", canarybank.Claim(1.0, 1e-5, mechanism=mechanism).is_false)

# %% [markdown]
# ## Audit your own vectors
#
# `audit` takes one array of record vectors for each user, and the vectors of the candidate bank. Here both are
# random. An attack tries to find out whether one known user, the *canary*, took part. `ordinary` only looks at what
# is there; `exact` plants copies of the canary's records in the bank, as a curious server could.

# %%
import numpy as np

rng = np.random.default_rng(0)
users = [rng.normal(size=(16, 32)) for _ in range(80)]
bank = rng.normal(size=(400, 32))
found = canarybank.audit(users, bank, mechanism, ["ordinary", "exact"], trials=20_000, canaries=2, probes=16)
for attack in found.attacks:
    print(attack)

# %% [markdown]
# Each line is a lower bound, with its confidence, its method and its number of trials. Beside it stands the exact
# figure: what the attack reaches at its best threshold, with no counting. The gap between the two is the price of a
# threshold that was frozen beforehand, and statistics, which more trials mend. Which attack is the stronger one depends
# on the users: on random vectors, planting copies gains nothing.
#
# ## The result as a table
#
# `to_polars` and `to_pandas` give one row for each canary of each attack.

# %%
import polars as pl

table = found.to_polars().select(
    "attack", "canary", "bound", "confidence", "exact_rule", "exact_attack", "exact_mechanism"
)
with pl.Config(float_precision=3, tbl_width_chars=110, tbl_hide_column_data_types=True):
    print(table)

# %% [markdown]
# ## The result as a plot
#
# `plot` draws the gap ladder of one attack: the way from what is claimed down to what was certified, a bar for each
# cause.

# %%
alone = canarybank.audit(users, bank, mechanism, "ordinary", trials=20_000, canaries=1)
alone.plot().figure.savefig("walkthrough.svg", metadata={"Date": None})
print([f"{rung.name} {rung.epsilon:.3f}" for rung in alone.ladder.rungs])

# %% [markdown]
# ![The gap ladder of the attack ordinary](images/walkthrough.svg)
#
# ## The same in a run folder, on text
#
# A folder keeps everything: settings, commitment, results, page. Killed at any moment, the same call resumes.
# `resolve` reads the same keys as the command line and a TOML file. The users here are the built-in ones; name a CSV
# file by `users.source`.

# %%
flags = {"users.limit": 60, "attack.names": "ordinary,nonce", "cohorts.canaries": 1, "audit.trials": 200_000}
run = canarybank.run_audit(canarybank.resolve(flags=flags), "my-audit")
page, *tables = canarybank.write_report("my-audit")
print(page)

# %% [markdown]
# ## Reopen the folder
#
# Today or in a year, here or on another machine. `verify` checks that nothing was altered and that the run kept to
# what it committed to before its first trial. `gate` compares it with a claim.

# %%
again = canarybank.open_run("my-audit")
print("altered:", not canarybank.verify("my-audit").ok)
for attack in again.results.attacks:
    print(f"{attack.attack}: bound {attack.headline.epsilon:.3f}, exact {attack.ladder.attack.epsilon:.3f}")

# %%
for claim in (1.695, 1.0):
    outcome = canarybank.gate("my-audit", claim)
    print(f"claimed {claim}:", "no violation detected at this power" if outcome.ok else "the claim is too small")

# %% [markdown]
# The claim of 1.0 fails without a single trial: an attack reaches more, and that is computed. In a test of yours, the
# gate is one line: `assert canarybank.gate("my-audit", 1.695).ok`. `outcome.statement` is the whole sentence, with
# the size of violation that so many trials could have shown.
#
# Next: [what to do with a verdict](tutorial.md), [every command, key and public name](reference.md).
