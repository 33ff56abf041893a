"""A ninth attack: its name says nothing, its fields say all."""

from canarybank.attack import Attack, CanaryKind, PoolKind

PLANTED = Attack(
    "planted",
    CanaryKind.NONCE,
    PoolKind.RECORDS,
    "last-first",
    "plant a copy of each record of a canary made of nonces",
)
