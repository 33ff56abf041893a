import inspect
import pickle

from canarybank import errors


def test_the_tree_in_the_docstring_is_the_tree_in_the_code():
    drawn = errors.__doc__
    for name in errors.__all__:
        kind = getattr(errors, name)
        line = next(line for line in drawn.splitlines() if f" {name} " in f"{line} ")
        assert issubclass(kind, errors.CanarybankError)
        assert f" {kind.exit_code} " in f"{line} ", f"{name} exits with {kind.exit_code}"


def test_every_exception_is_exported():
    found = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert found == set(errors.__all__)


def test_bad_arguments_are_value_errors_too():
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.ConfigError, ValueError)


def test_a_missing_column_is_said_in_two_sentences_that_survive_a_trip_between_processes():
    error = pickle.loads(pickle.dumps(errors.ColumnError("There is no column 'x'.", "Name another.")))  # noqa: S301, ours
    assert str(error) == "There is no column 'x'. Name another."
    assert error.what == "There is no column 'x'."
