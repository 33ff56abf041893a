from canarybank.experiment.evolution_results import evolution_schema, statement_of


def test_every_field_has_a_line_of_documentation():
    schema = evolution_schema()
    for part in (schema, *schema["$defs"].values()):
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), name


def test_the_statement_says_what_is_private():
    assert "for adding or removing one user" in statement_of(None, reference=False)
    assert "figures of utility" in statement_of(None, reference=True)
    assert "simulation" in statement_of(0, reference=False)
