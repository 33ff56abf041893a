from pathlib import Path

import pytest

from canarybank.store import cache_root


def test_the_variable_then_xdg_then_home_say_where_caches_live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CANARYBANK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == tmp_path / ".cache" / "canarybank"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == tmp_path / ".cache" / "canarybank"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/xdg/canarybank")
    monkeypatch.setenv("CANARYBANK_CACHE", "~/mine")
    assert cache_root() == tmp_path / "mine"
