import pytest

from canarybank.errors import StoreError
from canarybank.paper import read_piece


def test_a_file_that_is_no_piece_is_refused(tmp_path):
    (tmp_path / "main.json").write_text('{"name": "main"}')
    with pytest.raises(StoreError, match="not what canarybank writes"):
        read_piece(tmp_path / "main.json")


def test_a_piece_of_a_later_layout_is_refused(tmp_path):
    (tmp_path / "main.json").write_text('{"name": "main", "schema_version": 99}')
    with pytest.raises(StoreError, match="newer canarybank"):
        read_piece(tmp_path / "main.json")
