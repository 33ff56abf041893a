"""Hold the one configuration: its model, loading it from files and flags, presets, and the plug-ins that it names.

Names are imported when they are first used, so that a command loads only what it needs.
"""

from typing import TYPE_CHECKING

from canarybank.lazily import exporter

if TYPE_CHECKING:
    from canarybank.config.loading import (
        Resolved,
        decisive,
        differences,
        fields,
        filled,
        flatten,
        is_default,
        read_value,
        refuse_unknown,
        resolve,
        starter,
        varied,
    )
    from canarybank.config.model import (
        AttackConfig,
        AuditConfig,
        BankConfig,
        CohortsConfig,
        Config,
        EncoderConfig,
        EvolveConfig,
        GeneratorConfig,
        MechanismConfig,
        OneRunConfig,
        RunConfig,
        SystemConfig,
        UsersConfig,
    )
    from canarybank.config.presets import PRESETS
    from canarybank.config.users_file import assumptions, is_users_file, resolve_users

__all__ = [
    "PRESETS",
    "AttackConfig",
    "AuditConfig",
    "BankConfig",
    "CohortsConfig",
    "Config",
    "EncoderConfig",
    "EvolveConfig",
    "GeneratorConfig",
    "MechanismConfig",
    "OneRunConfig",
    "Resolved",
    "RunConfig",
    "SystemConfig",
    "UsersConfig",
    "assumptions",
    "decisive",
    "differences",
    "fields",
    "filled",
    "flatten",
    "is_default",
    "is_users_file",
    "read_value",
    "refuse_unknown",
    "resolve",
    "resolve_users",
    "starter",
    "varied",
]

__getattr__, __dir__ = exporter(
    __name__,
    {
        "loading": (
            "Resolved",
            "decisive",
            "differences",
            "fields",
            "filled",
            "flatten",
            "is_default",
            "read_value",
            "refuse_unknown",
            "resolve",
            "starter",
            "varied",
        ),
        "model": (
            "AttackConfig",
            "AuditConfig",
            "BankConfig",
            "CohortsConfig",
            "Config",
            "EncoderConfig",
            "EvolveConfig",
            "GeneratorConfig",
            "MechanismConfig",
            "OneRunConfig",
            "RunConfig",
            "SystemConfig",
            "UsersConfig",
        ),
        "presets": ("PRESETS",),
        "users_file": ("assumptions", "is_users_file", "resolve_users"),
    },
)
