from canarybank.config import filled, is_default, resolve, varied


def test_a_varied_configuration_remembers_where_values_came_from():
    base = resolve(flags={"mechanism.sigma": 2.0})
    made = varied(base, {"mechanism.q": 0.2}, "sweep")
    assert (made.config.mechanism.sigma, made.config.mechanism.q) == (2.0, 0.2)
    assert (made.origins["mechanism.sigma"], made.origins["mechanism.q"]) == ("flag", "sweep")
    assert base.config.mechanism.q == 0.1


def test_only_defaults_are_filled():
    base = resolve(flags={"mechanism.sigma": 2.0})
    made = filled(base, {"mechanism.sigma": 3.0, "audit.trials": 5}, "paper")
    assert (made.config.mechanism.sigma, made.config.audit.trials) == (2.0, 5)
    assert is_default(base, "audit.trials")
    assert not is_default(made, "audit.trials")
