from canarybank.report.statements import assumptions, limits


def test_the_declared_method_and_its_assumption_are_named(run):
    text = " ".join(assumptions(run.results))
    assert run.results.attacks[0].headline.assumption in text
    assert "adding or removing one user" in text


def test_nonces_are_named_as_no_people_only_where_there_are_any(run, changed):
    assert any("Nonce" in line for line in limits(run.results))
    real = changed(attacks=run.results.attacks[:2]).results
    assert not any("Nonce" in line for line in limits(real))
