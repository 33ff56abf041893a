import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import BudgetError, InputError
from canarybank.generate import Request, Spending, SpendingCeiling
from canarybank.generate.budget import charged, worst_case


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50), st.floats(0, 1)), max_size=40), st.integers(0, 400))
def test_spent_and_reserved_never_pass_the_ceiling(requests, tokens):
    ceiling = SpendingCeiling(tokens=tokens, cost=0.5, prompt_price=1000, completion_price=3000)
    spending = Spending(ceiling)
    flying = []
    for prompt, completion, share in requests:
        if spending.fits(prompt, completion):
            spending.reserve(prompt, completion)
            flying.append(((prompt, completion), (prompt, int(share * completion))))
        elif flying:
            spending.settle(*flying.pop(0))
        worst = [sum(x) for x in zip((0, 0), *(reserved for reserved, _ in flying), strict=True)]
        assert spending.tokens + sum(worst) <= tokens
        assert spending.cost + ceiling.price(*worst) <= 0.5 + 1e-12
        assert spending.in_flight == bool(flying)


def test_without_a_ceiling_everything_fits_and_is_counted():
    spending = Spending()
    assert spending.fits(10**12, 10**12)
    spending.reserve(5, 5)
    spending.settle((5, 5), (4, 3))
    assert (spending.tokens, spending.cost, spending.in_flight) == (7, 0.0, False)


def test_the_worst_case_counts_bytes_because_a_token_holds_at_least_one():
    bare = worst_case(Request("x", tokens=7))
    full = worst_case(Request("é" * 10, system="abc", opening="d", tokens=7))
    assert full == (bare[0] - 1 + 20 + 3 + 1, 7)
    assert bare[0] > 1


@pytest.mark.parametrize(
    ("reported", "paid"),
    [
        ((100, 4), (100, 4)),
        ((3, 2), (3, 2)),
        ((2, 1), "worst"),
        ((0, 0), "worst"),
        ((-900, -900), "worst"),
        ((None, None), "worst"),
        ((10**6, 10**6), (10**6, 10**6)),
    ],
)
def test_a_report_is_believed_where_it_can_be_true(reported, paid):
    request = Request("p" * 60, system="s" * 20, opening="o", tokens=7)
    assert charged(request, "w" * 33, *reported) == (worst_case(request) if paid == "worst" else paid)


def test_only_an_empty_answer_may_take_no_tokens():
    request = Request("hello", tokens=7)
    assert charged(request, "", 5, 0) == (5, 0)
    assert charged(request, "", 5, -3) == charged(request, "hi", 5, 0) == (5, 7)


def test_an_answer_longer_than_was_asked_for_is_charged_by_its_length():
    assert charged(Request("hello", tokens=5), "w" * 3200, 5, 0) == (5, 100)


def test_the_refusal_says_what_is_spent():
    assert isinstance(Spending(SpendingCeiling(tokens=5)).refusal(4, 4), BudgetError)
    assert "0 of 5 tokens" in str(Spending(SpendingCeiling(tokens=5)).refusal(4, 4))


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": -1},
        {"cost": -1.0, "prompt_price": 1},
        {"cost": float("nan"), "prompt_price": 1},
        {"cost": 1.0},
        {"prompt_price": -1},
    ],
)
def test_a_ceiling_checks_itself(options):
    with pytest.raises(InputError):
        SpendingCeiling(**options)


def test_an_endless_price_is_called_so():
    with pytest.raises(InputError, match=r"must be finite and not negative, but they are inf and 0\.0"):
        SpendingCeiling(prompt_price=float("inf"))
