"""Hold the section [run] of the configuration: how a run is done, and not what it finds."""

from typing import Annotated

from pydantic import Field

from canarybank.config.kinds import FREE, Count, Registered, Section, Seed

__all__ = ["RunConfig"]


class RunConfig(Section):
    """How the run is done."""

    seed: Seed = Field(default=0, description="The seed of the trials, those that calibrate and those that count.")
    workers: Count | None = Field(
        default=None,
        description="The cores to use; left out, all. Results do not depend on it.",
        json_schema_extra=FREE,
    )
    shards: int | None = Field(
        default=None,
        ge=0,
        le=2**16,
        description="Into how many shards users are laid out, so that memory holds one shard for each worker and not "
        "all users; 0 for none. Left out, files above 256 MB are. Results do not depend on it where a text's vector "
        "depends on that text alone: with hashing, wordllama, and BERT models such as MiniLM on a GPU.",
        json_schema_extra=FREE,
    )
    engine: Annotated[str, Registered("engine")] = Field(
        default="threads",
        description="Where the work runs. Results depend on it no more than on run.shards.",
        json_schema_extra=FREE,
    )
    address: str | None = Field(
        default=None,
        min_length=1,
        description="The address of a running Ray cluster, or auto for the one on this machine, for run.engine = ray; "
        "left out, Ray starts a cluster here and stops it at the end.",
        json_schema_extra=FREE,
    )
