"""Hold a real evolution to its promise: nothing leaves but the release.

A real run is an evolution without ``evolve.insecure_seed``. All that it writes, sends or prints is a function of public
inputs and of noisy releases. What is chosen from users is therefore declared public by the configuration, or refused
here before anything is read; and work on users' records shows no count, no duration and no words of theirs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from canarybank.encode import Encoder
from canarybank.encode.load import is_vector_file
from canarybank.errors import ColumnError, ConfigError, DataError, MissingError
from canarybank.experiment.config import Config
from canarybank.progress import Progress

__all__ = ["hidden", "is_real", "require_isolated", "require_private"]

_INSTEAD = "Or add --insecure-seed 0 for a simulation, which stamps every output and is not private."


def is_real(config: Config) -> bool:
    """Say whether an evolution under this configuration is a real one: its noise comes from no seed."""
    return config.evolve.insecure_seed is None


def require_private(config: Config) -> None:
    """Refuse a real run in which something that leaves would be chosen from users without noise.

    Raises:
        ConfigError: With what to set instead. A simulation is never refused.
    """
    if is_real(config) and (refusal := _refusal(config)):
        raise ConfigError(f"{refusal} {_INSTEAD}")


def _refusal(config: Config) -> str | None:
    """Return why a real run cannot have this configuration, and what to set."""
    users, evolve = config.users, config.evolve
    if evolve.audit is not None:
        return (
            f"The audit by {evolve.audit} is a simulation: it plants probes, and its exact figures would reveal what "
            "noise hides about the voters. Leave evolve.audit out."
        )
    if users.limit is not None:
        return (
            "users.limit cannot be used in a real run: when one user comes, another one falls out, so the ledger's "
            "epsilon would not hold. Leave it out; to use fewer users in each round, lower mechanism.q."
        )
    if users.strict:
        return (
            "users.strict cannot be true in a real run: one user's broken line would stop it, and that tells something "
            "about the user. Leave it out; broken lines are then skipped."
        )
    if evolve.reference:
        return (
            "evolve.reference cannot be used in a real run: the held-out users displace each other, and their figures "
            "carry no noise. Set evolve.reference to 0."
        )
    if evolve.users is not None and evolve.population is None:
        return (
            "evolve.users needs evolve.population in a real run: how many users the file holds is private. Set "
            "evolve.population to a number that you declare public, or set mechanism.q in place of evolve.users."
        )
    if is_vector_file(config.encoder.name):
        return (
            f"The file of vectors {config.encoder.name!r} cannot be the encoder of a real run: a text without a vector "
            "would stop it. Set encoder.name to a model, such as wordllama."
        )
    return None


def require_isolated(encoder: Encoder) -> None:
    """Refuse an encoder whose vector of one text depends on the texts beside it: one user could move another's."""
    if not getattr(encoder, "isolated", False):
        raise ConfigError(
            f"The encoder {encoder.name} cannot be used in a real run: its vector of a text depends on the texts that "
            f"are encoded with it. Set encoder.name to another, such as wordllama. {_INSTEAD}"
        )


@contextmanager
def hidden(name: str, progress: Progress) -> Iterator[None]:
    """Show work on users' records as a step without counts or times, and its errors without anything of theirs.

    Errors about columns come from a file's header or schema, and errors about missing packages from neither: both
    pass.
    """
    with progress.step(name):
        try:
            yield
        except (ColumnError, MissingError):
            raise
        except Exception:  # noqa: BLE001, whatever it says may be about a record
            raise DataError(
                f"The step '{name}' failed. A real run does not say why, because the reason may tell what a record "
                "holds. Run the same command with --insecure-seed 0 to see it; keep what that prints to yourself."
            ) from None
