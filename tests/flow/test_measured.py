from canarybank.auditing import TrialEngine
from canarybank.encode import HashingEncoder
from canarybank.flow.planning import encode_rate, trial_rate
from canarybank.mechanism import Mechanism


def test_rates_are_of_the_work_itself():
    few = trial_rate(Mechanism(), 8, 4, TrialEngine.PROJECTED)
    many = trial_rate(Mechanism(), 4000, 4, TrialEngine.PROJECTED)
    assert many < few
    assert trial_rate(Mechanism(), 8, 4, TrialEngine.LITERAL) > 0
    assert encode_rate(HashingEncoder(), ["a b c"] * 50) > 0
