"""Bring records in: where they are read from, whose they are, which users are admitted, and what role each plays."""

from canarybank.users.admission import ADMISSIONS, Admission, Admitted, admit
from canarybank.users.chitchat import Chitchat
from canarybank.users.cohorts import (
    Auxiliary,
    Calibration,
    Cohort,
    Cohorts,
    CohortSizes,
    DrawnIndices,
    Evaluation,
    draw_cohorts,
    draw_indices,
)
from canarybank.users.delimited import Delimited
from canarybank.users.guess import guess_columns
from canarybank.users.jsonlines import JsonLines
from canarybank.users.keep import pack_users, unpack_users
from canarybank.users.names import Names
from canarybank.users.parquet import Parquet
from canarybank.users.passes import run_pass
from canarybank.users.records import Users
from canarybank.users.report import AdmissionReport, Drop
from canarybank.users.rows import Columns, Fault, Row, Skip
from canarybank.users.shards import STREAM_BYTES, Members, Part, Shards, are_sharded, shard_count, shard_users
from canarybank.users.sources import FORMATS, Format, Source, infer_format, read, source

__all__ = [
    "ADMISSIONS",
    "FORMATS",
    "STREAM_BYTES",
    "Admission",
    "AdmissionReport",
    "Admitted",
    "Auxiliary",
    "Calibration",
    "Chitchat",
    "Cohort",
    "CohortSizes",
    "Cohorts",
    "Columns",
    "Delimited",
    "DrawnIndices",
    "Drop",
    "Evaluation",
    "Fault",
    "Format",
    "JsonLines",
    "Members",
    "Names",
    "Parquet",
    "Part",
    "Row",
    "Shards",
    "Skip",
    "Source",
    "Users",
    "admit",
    "are_sharded",
    "draw_cohorts",
    "draw_indices",
    "guess_columns",
    "infer_format",
    "pack_users",
    "read",
    "run_pass",
    "shard_count",
    "shard_users",
    "source",
    "unpack_users",
]
