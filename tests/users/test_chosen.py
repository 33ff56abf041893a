import random
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from canarybank.users.chosen import Chosen, rank


def _choose(records: Any, cap: int, seed: int = 0) -> Chosen:
    chosen = Chosen(cap)
    for text, label in records:
        chosen.add(rank(seed, "u", text, label), text, label)
    return chosen


def _naive(records: Any, cap: int, seed: int = 0) -> Any:
    """Number the copies of each record, then sort by copy and rank, and cut."""
    seen = Counter()
    numbered = []
    for text, label in records:
        numbered.append((seen[text, label], rank(seed, "u", text, label), text, label))
        seen[text, label] += 1
    return [(text, label) for *_, text, label in sorted(numbered)[:cap]]


_RECORDS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["0", "1", None])), max_size=40)


@given(_RECORDS, st.integers(1, 12), st.randoms())
def test_equals_the_naive_choice_in_any_order(records: Any, cap: int, shuffler: random.Random) -> None:
    wanted = _naive(records, cap)
    assert _choose(records, cap).records() == wanted
    shuffler.shuffle(records)
    chosen = _choose(records, cap)
    assert chosen.records() == wanted
    assert chosen.seen == len(records)


def test_below_the_cap_everything_is_kept_copies_included() -> None:
    records = [("a", None)] * 3 + [("b", None)]
    assert Counter(_choose(records, 4).records()) == Counter(records)


def test_copies_wait_for_all_that_differ() -> None:
    kept = _choose([("a", None)] * 50 + [("b", None), ("c", None)], 3).records()
    assert {text for text, _ in kept} == {"a", "b", "c"}


def test_memory_is_bounded_by_the_cap() -> None:
    chosen = _choose(((f"text {i // 2}", None) for i in range(10_000)), 8)
    assert len(chosen._records) == len(chosen._worst) == len(chosen._copies) == 8


def test_seeds_choose_evenly() -> None:
    # 2,000 seeds choose 2 of 10: each text is expected 400 times with sd 17.9; 5 sd either side fails below 1e-5.
    texts = [(f"text {i}", None) for i in range(10)]
    times = Counter(text for seed in range(2000) for text, _ in _choose(texts, 2, seed).records())
    assert min(times.values()) > 310
    assert max(times.values()) < 490
    assert len(times) == 10


def test_rank_follows_from_every_value() -> None:
    base = (0, "u", "text", "label")
    others = [(1, "u", "text", "label"), (0, "v", "text", "label"), (0, "u", "t", "label"), (0, "u", "text", None)]
    assert len({rank(*values) for values in [base, *others]}) == 5
    assert rank(*base) == rank(*base)
    assert 0 <= rank(*base) < 2**128
