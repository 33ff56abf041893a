from canarybank.cli.typed import remember, typed


def test_what_was_typed_can_be_typed_again():
    remember(["audit", "my file.toml"])
    assert typed() == "canarybank audit 'my file.toml'"
