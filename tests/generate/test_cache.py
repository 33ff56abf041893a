import gzip

import pytest

from canarybank.errors import DataError, GenerationError, StoreError
from canarybank.generate import CachedGenerator, Request, Response, ResponseCache, ScriptedGenerator, in_order


def asks(count):
    return [Request(f"q{i}") for i in range(count)]


def echo(name="echo"):
    return ScriptedGenerator(lambda r: r.prompt.upper(), name)


def test_nothing_is_asked_for_twice(tmp_path):
    path = tmp_path / "responses.log"
    first = echo()
    in_order(CachedGenerator(first, ResponseCache(path)), asks(3))
    second = echo()
    cached = CachedGenerator(second, ResponseCache(path))
    assert [a.text for a in in_order(cached, asks(5))] == ["Q0", "Q1", "Q2", "Q3", "Q4"]
    assert (len(first.asked), len(second.asked), cached.hits, cached.misses) == (3, 2, 3, 2)


def test_equal_requests_of_one_call_are_asked_once():
    generator = echo()
    cached = CachedGenerator(generator, ResponseCache())
    assert [a.text for a in in_order(cached, [*asks(2), *asks(2)])] == ["Q0", "Q1", "Q0", "Q1"]
    assert len(generator.asked) == 2
    assert (cached.hits, cached.misses) == (2, 2)


def test_another_model_is_asked_anew_unless_its_answers_are_accepted():
    cache = ResponseCache()
    in_order(CachedGenerator(echo("one"), cache), asks(2))
    other = echo("two")
    in_order(CachedGenerator(other, cache), asks(2))
    assert len(other.asked) == 2
    third = echo("three")
    cached = CachedGenerator(third, cache, accept=[echo("one").fingerprint])
    in_order(cached, asks(2))
    assert third.asked == []
    assert (cached.name, cached.fingerprint) == (third.name, third.fingerprint)


def test_answers_before_a_failure_are_kept(tmp_path):
    path = tmp_path / "responses.log"
    with pytest.raises(GenerationError):
        in_order(CachedGenerator(ScriptedGenerator(["A", "B"], "x"), ResponseCache(path)), asks(3))
    rest = ScriptedGenerator(["C"], "x")
    assert [a.text for a in in_order(CachedGenerator(rest, ResponseCache(path)), asks(3))] == ["A", "B", "C"]


def test_an_answer_is_in_the_file_before_it_is_passed_on(tmp_path):
    path = tmp_path / "responses.log"
    answers = CachedGenerator(echo(), ResponseCache(path)).generate(asks(3))
    next(answers)
    assert len(ResponseCache(path)) == 1


def test_a_damaged_line_is_asked_for_again(tmp_path):
    path = tmp_path / "responses.log"
    in_order(CachedGenerator(echo(), ResponseCache(path)), asks(3))
    path.write_bytes(path.read_bytes().replace(b'"Q1"', b'"QX"'))
    cache = ResponseCache(path)
    generator = echo()
    assert [a.text for a in in_order(CachedGenerator(generator, cache), asks(3))] == ["Q0", "Q1", "Q2"]
    assert (cache.damaged, len(generator.asked)) == (1, 1)


def test_a_cache_is_shipped_as_one_small_file_with_the_same_bytes_each_time(tmp_path):
    cache = ResponseCache()
    in_order(CachedGenerator(echo(), cache), asks(4))
    assert cache.export(tmp_path / "a.gz") == 4
    other = ResponseCache(tmp_path / "other.log")
    assert other.load(tmp_path / "a.gz") == 4
    assert other.load(tmp_path / "a.gz") == 0
    other.export(tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert (tmp_path / "a.gz").read_bytes()[4:8] == bytes(4), "gzip keeps the time there"
    generator = echo()
    in_order(CachedGenerator(generator, ResponseCache(tmp_path / "other.log")), asks(4))
    assert generator.asked == []
    key = asks(1)[0].key(generator.fingerprint)
    assert cache.export(tmp_path / "c.gz", [key, "unknown"]) == 1
    assert key in cache
    assert cache.get(key) == Response("Q0", 1, 1)


def test_a_file_that_is_no_exported_cache_is_refused(tmp_path):
    path = tmp_path / "x.gz"
    cache = ResponseCache()
    for data in (b"junk", gzip.compress(b""), gzip.compress(b'{"format":"other"}\n'), gzip.compress(b"\xff\n")):
        path.write_bytes(data)
        with pytest.raises((DataError, StoreError)):
            cache.load(path)
    path.write_bytes(gzip.compress(b'{"format":"canarybank-responses","responses":2,"version":1}\n'))
    with pytest.raises(DataError, match="should hold 2 responses but holds 0"):
        cache.load(path)
    with pytest.raises(DataError, match="There is no file"):
        cache.load(tmp_path / "absent.gz")


def exported(*lines):
    header = f'{{"format":"canarybank-responses","responses":{len(lines)},"version":1}}'
    return gzip.compress("\n".join([header, *lines, ""]).encode())


def test_a_flipped_byte_in_an_exported_cache_is_refused(tmp_path):
    cache, path = ResponseCache(), tmp_path / "x.gz"
    in_order(CachedGenerator(echo(), cache), asks(50))
    cache.export(path)
    whole = path.read_bytes()
    for place in range(10, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with pytest.raises((DataError, StoreError)):
            ResponseCache().load(path)


GOOD = '{"completion_tokens":1,"finished":true,"key":"k","prompt_tokens":1,"text":"t"}'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[1]", r"no response under a key in line 3 of .*, but '\[1\]'"),
        ("{", "response in line 3 of .* cannot be read .*not JSON"),
        ("7", "no response under a key in line 3 of .*, but '7'"),
        (GOOD.replace("key", "kez"), "no response under a key in line 3 of .*"),
        (GOOD.replace('"k"', "null"), "no response under a key in line 3 of .*"),
        (GOOD.replace("text", "tezt"), "response in line 3 of .* cannot be read .This is no recorded response"),
        (GOOD.replace(":1,", ":1e999,"), "response in line 3 of .* cannot be read .This is no recorded response"),
    ],
)
def test_a_line_of_an_exported_cache_that_is_no_response_is_named(tmp_path, line, words):
    path = tmp_path / "x.gz"
    path.write_bytes(exported(GOOD, line))
    with pytest.raises(DataError, match=words):
        ResponseCache().load(path)
