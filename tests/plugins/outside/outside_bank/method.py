"""A bound by three one-sided ends: a sixth of alpha more cautious than two."""

from canarybank.auditing import Method

THIRDS = Method("thirds", "independent trials, the rule frozen before them; Clopper–Pearson ends at alpha/3", tails=3)
