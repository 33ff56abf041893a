"""Decide whether users' records may go to the generator, and record where its requests went."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from canarybank.config.model import NO_GENERATOR, Config
from canarybank.errors import ConfigError
from canarybank.flow.generators import destination, runs_in_process
from canarybank.generate import Generator, server_of
from canarybank.run.folder import Run
from canarybank.run.manifest import GeneratorRecord

__all__ = ["may_send_records", "refuse_sending", "sending_recorded", "skipped_note"]

_LOCAL = "smollm2, llamacpp or transformers"


def may_send_records(config: Config) -> bool:
    """Say whether users' records may go to the generator: it runs in this process, or a key allows sending them."""
    return config.attack.send_records or runs_in_process(config.generator.kind)


def refuse_sending(config: Config, what: str, otherwise: str) -> None:
    """Refuse what would send users' records to a server where nobody allowed it, and say what to set."""
    if not may_send_records(config):
        raise ConfigError(
            f"{what} would send users' records to {destination(config.generator)}, and nothing allows that. Set "
            f"attack.send_records to true to allow it, set generator.kind to {_LOCAL}, which send "
            f"nothing, or {otherwise}."
        )


def skipped_note(names: Sequence[str], config: Config) -> str:
    """Say which attacks are skipped because nobody writes their paraphrases, and what to set."""
    listed = ", ".join(names)
    if config.generator.kind == NO_GENERATOR:
        return f"Skipped: {listed}. There are no paraphrases; set generator.kind to create them."
    return (
        f"Skipped: {listed}. Paraphrases would send users' records to {destination(config.generator)}; set "
        f"attack.send_records to true to allow it, or set generator.kind to {_LOCAL}, which send nothing."
    )


@contextmanager
def sending_recorded(run: Run, config: Config, generator: Generator | None, *, counted: bool = True) -> Iterator[None]:
    """Record in a run's manifest which server its generator asks, and at the end how much was sent there.

    The end comes after a failure too. A run that is resumed adds to what it recorded before. Without ``counted`` only
    what the configuration decides is recorded.
    """
    if generator is None:
        yield
        return
    before = run.manifest.generators
    _write(run, before, _record(config, generator, counted=counted))
    try:
        yield
    finally:
        if run.is_ours():  # a folder that was removed meanwhile stays removed
            _write(run, before, _record(config, generator, counted=counted))


def _record(config: Config, generator: Generator, *, counted: bool) -> GeneratorRecord:
    server = server_of(generator)
    record = GeneratorRecord(
        kind=config.generator.kind,
        model=generator.name,
        server=None if server is None else server.url,
        proxy=None if server is None else server.proxy,
        send_records=config.attack.send_records,
    )
    if server is None or not counted:
        return record
    sent = {"requests": server.requests, "requests_with_records": server.requests_with_records}
    return record.model_copy(update={**sent, "records": len(server.records)})


def _write(run: Run, before: Sequence[GeneratorRecord], now: GeneratorRecord) -> None:
    same = [each for each in before if each.place == now.place]
    others = [each for each in before if each.place != now.place]
    for each in same:
        now = now.with_more(each)
    run.write_manifest(run.manifest.model_copy(update={"generators": (*others, now)}))
