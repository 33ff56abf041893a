"""Hold the one configuration: its model, loading it from files and flags, presets, and the plug-ins that it names.

Names are imported when they are first used, so that a command loads only what it needs.
"""

from typing import TYPE_CHECKING

from canarybank.lazily import exporter

if TYPE_CHECKING:
    from canarybank.config.loading import Resolved, differences, fields, flatten, resolve
    from canarybank.config.model import Config
    from canarybank.config.presets import PRESETS
    from canarybank.config.starter_file import starter

__all__ = [
    "PRESETS",
    "Config",
    "Resolved",
    "differences",
    "fields",
    "flatten",
    "resolve",
    "starter",
]

__getattr__, __dir__ = exporter(
    __name__,
    {
        "loading": (
            "Resolved",
            "differences",
            "fields",
            "flatten",
            "resolve",
        ),
        "model": ("Config",),
        "presets": ("PRESETS",),
        "starter_file": ("starter",),
    },
)
