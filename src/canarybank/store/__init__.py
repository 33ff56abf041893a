"""Keep files whole: atomic writes, locks, content hashes, and the two formats that the caches share.

Locks and the log need a POSIX system, for they stand on ``flock``; everything else works anywhere.
"""

from canarybank.store.documents import (
    canonical_json,
    differences,
    inert_cell,
    parse_json,
    read_checked,
    read_json,
    write_checked,
    write_json,
)
from canarybank.store.files import (
    BY_UMASK,
    PRIVATE,
    SHAREABLE,
    atomic_writer,
    discard,
    file_errors,
    go_on_without,
    make_folder,
    path_hint,
    private_folder,
    private_temporary,
    require_file,
    set_aside,
    sweep_temporaries,
    tighten,
    write_atomic,
)
from canarybank.store.hashes import (
    altered_files,
    hash_array,
    hash_bytes,
    hash_file,
    hash_folder,
    hash_json,
    hash_text,
)
from canarybank.store.locations import cache_root
from canarybank.store.locks import Holder, folder_user, lock_folder
from canarybank.store.log import Log, LogContents
from canarybank.store.parquet import check_parquet, parquet_errors
from canarybank.store.pruning import StoredFile, prune_files, stored_files, sweep_folders
from canarybank.store.segments import Segment, write_segment
from canarybank.store.stage_cache import StageCache, StageUsage, stage_key

__all__ = [
    "BY_UMASK",
    "PRIVATE",
    "SHAREABLE",
    "Holder",
    "Log",
    "LogContents",
    "Segment",
    "StageCache",
    "StageUsage",
    "StoredFile",
    "altered_files",
    "atomic_writer",
    "cache_root",
    "canonical_json",
    "check_parquet",
    "differences",
    "discard",
    "file_errors",
    "folder_user",
    "go_on_without",
    "hash_array",
    "hash_bytes",
    "hash_file",
    "hash_folder",
    "hash_json",
    "hash_text",
    "inert_cell",
    "lock_folder",
    "make_folder",
    "parquet_errors",
    "parse_json",
    "path_hint",
    "private_folder",
    "private_temporary",
    "prune_files",
    "read_checked",
    "read_json",
    "require_file",
    "set_aside",
    "stage_key",
    "stored_files",
    "sweep_folders",
    "sweep_temporaries",
    "tighten",
    "write_atomic",
    "write_checked",
    "write_json",
    "write_segment",
]
