from canarybank.generate import CachedGenerator, ResponseCache, ScriptedGenerator
from canarybank.generate.embedded import chat_topics, embedded_requests, make_embedded, prefetch

CANARIES = [["I love my old red bike.", "the rain will not stop"], ["we met in the old town", "my cat hates the snow"]]
SIZES = {"bank_size": 200, "pool_size": 6}


def writer(request):
    tail = f"n{request.seed % 997} t{request.seed % 991} k{request.seed % 983}"
    if "record" in request.label or '"' in request.prompt:
        return f'{request.opening}{request.prompt.split(chr(34))[1].rstrip(".")} {tail}"'
    return f"{request.opening} saw it with {tail} today."


def test_topics_are_many_and_different():
    assert len(chat_topics()) == len(set(chat_topics())) >= 128


def test_everything_is_asked_for_beforehand_and_made_from_the_answers_alone(tmp_path):
    requests = embedded_requests(CANARIES, **SIZES)
    path = tmp_path / "answers.gz"
    assert prefetch(ScriptedGenerator(writer), requests, path) == len(set(requests))
    cache = ResponseCache()
    cache.load(path)
    mute = ScriptedGenerator([])
    bank, pools = make_embedded(CachedGenerator(mute, cache), CANARIES, minimum=0.1, **SIZES)
    assert len(bank) == 200
    assert [len(pool) for pool in pools] == [6, 6]
    assert mute.asked == []


def test_no_record_stands_in_a_bank_prompt():
    generator = ScriptedGenerator(writer)
    make_embedded(generator, CANARIES, minimum=0.1, **SIZES)
    records = [record for records in CANARIES for record in records]
    for request in generator.asked:
        if request.label:
            assert not any(record.rstrip(".") in request.prompt for record in records)
