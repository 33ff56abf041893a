"""A rule that takes the last candidates of a pool, the last one first."""


def last_first(context):
    return list(reversed(range(len(context.pool))))[: len(context.places)]
