import math

import numpy as np
import pytest

from canarybank.auditing import perfect_rates
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.report import roc_figure
from canarybank.report.evidence_figures import allowed


@pytest.mark.parametrize("fpr", [0.0, 1e-6, 0.01, 0.3, 0.9, 1.0])
def test_the_region_is_the_definition_in_both_directions(fpr):
    exact, delta = 1.2, 1e-3
    tpr = allowed(fpr, exact, delta)
    slack = 1e-12
    assert tpr <= math.exp(exact) * fpr + delta + slack
    assert 1 - fpr <= math.exp(exact) * (1 - tpr) + delta + slack
    beyond = min(1.0, tpr + 1e-6)
    broken = beyond > math.exp(exact) * fpr + delta or 1 - fpr > math.exp(exact) * (1 - beyond) + delta
    assert broken or tpr == 1.0


@pytest.mark.parametrize("exact", [1e-9, 3.0, 800.0, math.inf])
@pytest.mark.parametrize("delta", [0.0, 1e-12, 0.4])
def test_the_region_lies_between_delta_and_1_whatever_the_epsilon(exact, delta):
    assert delta <= allowed(1e-6, exact, delta) <= 1


def test_a_perfect_attack_stays_inside_and_touches():
    mechanism = Mechanism()
    exact = one_round_epsilon(mechanism)
    fpr, tpr = perfect_rates(mechanism)(np.linspace(-8, 8, 4001))
    room = np.array([allowed(f, exact, mechanism.delta) - t for f, t in zip(fpr, tpr, strict=True)])
    assert room.min() > -1e-12
    assert (room / np.maximum(tpr, 1e-9)).min() < 1e-3


def test_the_table_holds_the_whole_curve(attack):
    figure = roc_figure(attack, Mechanism(), 1.6845, "roc")
    roc = attack["evidence"]["roc"]
    assert len(figure.rows) == len(roc["fpr"])
    assert figure.rows[roc["frozen"]][1] == f"{roc['fpr'][roc['frozen']]:.4g}"
