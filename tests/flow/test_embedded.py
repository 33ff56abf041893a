import gzip
import json

import numpy as np
import pytest

from canarybank.attack import Canary
from canarybank.encode import HashingEncoder
from canarybank.errors import DataError, MissingError
from canarybank.flow import embedded_bank, embedded_canaries, embedded_pool
from canarybank.store import hash_text
from canarybank.users import admit

BANK_FILE, POOL_FILE, FACTS_FILE = "bank.jsonl.gz", "paraphrases.jsonl.gz", "embedded.json"
ENCODE = HashingEncoder().encode
RECORDS = ("i like soup", "rain again", "my dog ran")


def write(path, lines):
    path.write_bytes(gzip.compress("\n".join(json.dumps(line) for line in lines).encode()))


@pytest.fixture
def data(tmp_path):
    """Stand in for the package's data: a bank of three, and nine paraphrases of one canary's three records."""
    write(tmp_path / BANK_FILE, [{"text": f"entry {i}", "label": "x"} for i in range(3)])
    lines = [
        {"canary": "ann", "source": i % 3, "record": hash_text(RECORDS[i % 3]), "text": f"para\u2028phrase {i}"}
        for i in range(9)
    ]
    write(tmp_path / POOL_FILE, lines)
    (tmp_path / FACTS_FILE).write_text(json.dumps({"canaries": ["ann", "bob"]}))
    return tmp_path


def canary(name="ann", records=RECORDS):
    return Canary(vectors=ENCODE(records), texts=records, id=name)


def test_the_bank_and_the_canaries_come_in_their_order(data):
    bank = embedded_bank(folder=data)
    assert bank.texts == ("entry 0", "entry 1", "entry 2")
    assert embedded_canaries(folder=data) == ("ann", "bob")


def test_a_pool_is_spread_over_the_records_and_ignores_the_seed(data):
    source = embedded_pool(ENCODE, folder=data)
    pool = source(canary(), 4, 0)
    assert sorted(pool.sources.count(record) for record in range(3)) == [1, 1, 2]
    assert pool.texts == source(canary(), 4, 99).texts
    assert len(source(canary(), 9, 0)) == 9


def test_data_from_before_similarities_were_kept_have_none(data):
    pool = embedded_pool(ENCODE, folder=data)(canary(), 4, 0)
    assert (pool.similarities, pool.counters) == (None, {})


def test_similarities_and_counters_are_those_of_the_chosen_lines_and_canary(data):
    lines = [
        {
            "canary": "bob",
            "source": i % 3,
            "record": hash_text(RECORDS[i % 3]),
            "text": f"text {i}",
            "similarity": i / 10,
        }
        for i in range(9)
    ]
    write(data / POOL_FILE, lines)
    made = [{"counters": {"asked": n}, "similarity": "wordllama_cosine"} for n in (1, 2)]
    (data / FACTS_FILE).write_text(json.dumps({"canaries": ["ann", "bob"], "pools": made}))
    pool = embedded_pool(ENCODE, folder=data)(canary("bob"), 4, 0)
    assert pool.similarities == tuple(int(text.removeprefix("text ")) / 10 for text in pool.texts)
    assert (pool.measure, pool.counters) == ("wordllama cosine", {"asked": 2})


def test_another_canary_without_a_generator_is_told_what_to_install(data):
    with pytest.raises(MissingError, match=r"of the canary 'eve'.*pip install 'canarybank\[llamacpp\]'.*smollm2"):
        embedded_pool(ENCODE, folder=data)(canary("eve"), 4, 0)


def test_other_records_of_the_same_canary_are_refused(data):
    with pytest.raises(MissingError, match="rewrite other records"):
        embedded_pool(ENCODE, folder=data)(canary(records=("i like tea", *RECORDS[1:])), 4, 0)


def test_a_larger_pool_than_there_is_is_refused(data):
    with pytest.raises(MissingError, match="A pool of 10 paraphrases is asked for, and 9"):
        embedded_pool(ENCODE, folder=data)(canary(), 10, 0)


def test_missing_and_broken_data_say_what_to_do(data):
    (data / BANK_FILE).write_bytes(b"no gzip")
    with pytest.raises(DataError, match="reinstall"):
        embedded_bank(folder=data)
    (data / BANK_FILE).unlink()
    with pytest.raises(MissingError, match="lacks the embedded file"):
        embedded_bank(folder=data)


def test_the_packages_own_data_fits_the_built_in_users():
    users = admit("chitchat").users
    texts = embedded_bank().texts
    assert len(texts) == len(set(texts)) >= 2048
    source = embedded_pool(ENCODE)
    for name in embedded_canaries():
        person = users.take([users.ids.index(name)])
        pool = source(Canary.of(person.with_vectors(np.ones((64, 2))), 0), 512, 0)
        assert len(pool) == 512
        assert not set(pool.texts) & set(person.require_texts())
        assert 0.5 <= min(pool.similarities) <= max(pool.similarities) <= 1
        assert (pool.measure, pool.counters["kept"]) == ("wordllama cosine", 512)
