"""The engine on Ray's own multi-node test cluster, all of it on this machine: a head and two nodes of one core each."""

import contextlib
import itertools
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
import types
from dataclasses import replace
from functools import partial

import engine_tasks
import numpy as np
import pytest

from canarybank.config import Config, RunConfig, resolve
from canarybank.encode import EncoderRecipe, HashingEncoder
from canarybank.engine import Ray, Serial, Threads, ray_cluster
from canarybank.engine import ray as ray_engine
from canarybank.engine.ray_cluster import disconnect
from canarybank.engine.tasks import Surroundings
from canarybank.errors import ConfigError, DataError, IncompleteError, InputError, MissingError
from canarybank.flow import build_engine, build_generator, run_audit
from canarybank.generate import HostedGenerator, Request
from canarybank.testing import check_engine

pytestmark = pytest.mark.timeout(280)
QUICK_TO_NOTICE = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3}


@pytest.fixture(scope="module")
def cluster():
    """Start a cluster that notices within seconds that a node is gone."""
    from ray.cluster_utils import Cluster

    disconnect()  # from what another module started
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": False,
            "node_ip_address": "127.0.0.1",
            "_system_config": QUICK_TO_NOTICE,
        },
    )
    made.spare = [add_node(made), add_node(made)]
    yield made
    disconnect()
    made.shutdown()


def add_node(cluster):
    return cluster.add_node(num_cpus=1, num_gpus=1, node_ip_address="127.0.0.1")  # Ray counts GPUs as it is told


@pytest.fixture
def engine(cluster):
    return Ray(address=cluster.address)


@pytest.fixture
def loads(tmp_path, monkeypatch):
    """Return the folder where whatever is loaded signs with the number of its process."""
    (tmp_path / "loads").mkdir()
    monkeypatch.setenv(engine_tasks.LOADS, str(tmp_path / "loads"))
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "caches"))
    return tmp_path / "loads"


def bytes_of(results):
    """Return results in the order of their tasks, as bytes."""
    return pickle.dumps(sorted(results))


def test_it_keeps_the_contract_of_an_engine(cluster):
    check_engine(partial(Ray, address=cluster.address))


@contextlib.contextmanager
def killing(folder, *, pause, most):
    """Kill a worker that signed in a folder, again and again, so often at most; the list says which ones."""
    killed, over = [], threading.Event()

    def kill():
        while len(killed) < most and not over.wait(pause):
            if signed := sorted(folder.iterdir()):
                signed[0].unlink()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(signed[0].name), signal.SIGKILL)
                    killed.append(signed[0].name)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_workers_that_are_killed_change_no_byte(engine, tmp_path):
    with killing(tmp_path, pause=0.3, most=3) as killed:
        found = list(engine.run(engine_tasks.Signed(tmp_path), [(seed, 0.2) for seed in range(12)]))
    assert len(killed) == 3
    assert bytes_of(found) == bytes_of(Serial().run(engine_tasks.draw, [(seed, 0) for seed in range(12)]))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_worker_killed_every_few_seconds_for_a_minute_changes_no_byte(engine, tmp_path, count):
    tasks, began = [(seed, 0.7) for seed in range(140)], time.monotonic()
    with killing(tmp_path, pause=2.5, most=24) as killed:
        found = list(engine.run(engine_tasks.Signed(tmp_path), tasks))
    assert time.monotonic() - began > 60
    assert len(killed) == 24
    assert bytes_of(found) == bytes_of(Serial().run(engine_tasks.draw, [(seed, 0) for seed, _ in tasks]))
    count("workers of Ray", killed=len(killed), bytes_changed=0)


def test_errors_arrive_as_they_were_raised(engine):
    with pytest.raises(DataError) as caught:
        list(engine.run(engine_tasks.refuse, [7]))
    assert str(caught.value) == "Row 7 holds no text; remove it."
    assert caught.value.__cause__ is None
    assert "in refuse" in caught.value.__notes__[0]  # where it was raised
    with pytest.raises(RuntimeError, match=r"^StubbornError: 3"):
        list(engine.run(engine_tasks.be_stubborn, [3]))


def test_a_task_that_always_ends_its_worker_is_given_up(cluster):
    with pytest.raises(IncompleteError, match="its worker or node ended each time"):
        list(Ray(address=cluster.address, retries=1).run(engine_tasks.end, [0]))


def test_a_function_goes_to_a_worker_once_and_tasks_by_themselves(engine):
    found = [result for _, result in engine.run(engine_tasks.Heavy(), range(30))]
    assert sorted(value for _, _, value in found) == list(range(30))
    assert {times for _, times, _ in found} == {1}


def test_no_more_tasks_run_at_once_than_workers_are_asked_for(cluster):
    times = sorted(result for _, result in Ray(1, cluster.address).run(engine_tasks.interval, [0.05] * 6))
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(times))


def test_an_abandoned_run_ends_what_is_under_way(engine):
    results = engine.run(engine_tasks.draw, [(0, 0), (1, 90), (2, 90), (3, 90), (4, 90)])
    assert next(results)[0] == 0
    results.close()
    began = time.monotonic()
    assert list(engine.run(abs, [-1])) == [(0, 1)]
    assert time.monotonic() - began < 60


def test_workers_have_our_variables_and_our_folder(engine, tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("CANARYBANK_CACHE", name)
        monkeypatch.chdir(tmp_path / name)
        found = {result for _, result in engine.run(engine_tasks.surroundings, range(6))}
        assert found == {(name, str(tmp_path / name))}


def test_a_worker_of_another_version_is_refused():
    here = Surroundings.of_this_process()
    here.take_over()
    for package in ("numpy", "tokenizers"):
        versions = dict(here.software) | {package: "1.0"}
        with pytest.raises(ConfigError, match=rf"has {package} .*, and the process .* has 1.0; .* the same version"):
            replace(here, software=tuple(versions.items())).take_over()


def test_a_worker_may_lack_a_model_library_or_have_one_more():
    here = Surroundings.of_this_process()
    replace(here, software=tuple((dict(here.software) | {"tokenizers": None}).items())).take_over()


def test_what_a_worker_cannot_import_is_named(engine, monkeypatch):
    module = types.ModuleType("only_here")
    exec("def work(task): return task", module.__dict__)  # noqa: S102, a module without a file
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(ConfigError, match=r"No module named 'only_here'. Install the same packages on every node"):
        list(engine.run(module.work, [1]))


def test_what_cannot_be_sent_is_refused(engine):
    with pytest.raises(InputError, match="cannot be sent to workers"):
        list(engine.run(partial(print, threading.Lock()), [1]))


def loaded_elsewhere(loads):
    """Return the number of the process of each load, but for those of this one."""
    return [pid for file in loads.iterdir() if (pid := int(file.stem)) != os.getpid()]


def test_an_encoder_is_loaded_once_on_each_gpu_and_workers_ask_it(engine, loads):
    texts = [f"{number} cats sleep" for number in range(40)]
    plain = EncoderRecipe("engine_tasks:SlowToLoad", HashingEncoder().fingerprint)
    recipe = plain.hosted_on(engine)
    assert plain.hosted_on(engine) == recipe != plain.hosted_on(Serial()) == plain
    assert replace(plain).hosted_on(engine) == recipe  # as the next point of a sweep asks
    found = [
        vectors for _, vectors in sorted(engine.run(recipe.encode, [texts[at : at + 5] for at in range(0, 40, 5)]))
    ]
    assert np.concatenate(found).tobytes() == HashingEncoder().encode(texts).tobytes()
    assert len(loaded_elsewhere(loads)) == 2
    os.kill(loaded_elsewhere(loads)[0], signal.SIGKILL)
    assert recipe.load().encode(texts * 10).tobytes() == HashingEncoder().encode(texts * 10).tobytes()
    cheap = EncoderRecipe("hashing", HashingEncoder().fingerprint)
    elsewhere = replace(plain, device="cpu")
    elsewhere.provide(plain.load())
    assert [each.hosted_on(engine) for each in (cheap, elsewhere)] == [cheap, elsewhere]


def test_a_generator_is_loaded_once_on_each_gpu_beside_an_encoder(engine, loads):
    config = Config(generator={"kind": "engine_tasks:Writer"})
    requests = [Request(f"say {number}") for number in range(5_000)]
    made = build_generator(config, engine)
    assert isinstance(made, HostedGenerator)
    assert dict(made.generate(requests)) == dict(build_generator(config, Serial()).generate(requests))
    again = Config(generator={"kind": "engine_tasks:Writer"})
    assert dict(build_generator(again, engine).generate(requests)) == dict(made.generate(requests))
    assert len(loaded_elsewhere(loads)) == 2


def test_a_worker_that_never_reached_an_actor_asks_another_once_its_node_is_gone(cluster, engine):
    doomed = add_node(cluster)
    host = engine.host(int)
    assert len(host.actors) == 3
    lose(cluster, doomed)  # its actor waits for a GPU that no longer exists
    tasks = range(len(host.actors))  # so that each actor is asked once
    for _, found in engine.run(partial(engine_tasks.ask, host), [tasks] * 2):
        assert found == [(task, task) for task in tasks]


def lose(cluster, node):
    """Remove a node, as a cut cable does, and wait until the cluster has noticed."""
    ray = ray_cluster.load_ray()
    cluster.remove_node(node, allow_graceful=False)
    while any(each["Alive"] and each["NodeID"] == node.node_id for each in ray.nodes()):
        time.sleep(0.1)


class Losing:
    """An engine that loses a node after the first result of its first run."""

    def __init__(self, engine, lose):
        self.engine, self.left, self.tasks = engine, [lose], 0

    def run(self, function, tasks):
        self.tasks += len(tasks)
        for result in self.engine.run(function, tasks):
            yield result
            if self.left:
                self.left.pop()()

    def host(self, make):
        return self.engine.host(make)


# The last one in need of both nodes.
def test_a_node_that_dies_amid_an_audit_over_shards_costs_time_and_no_byte(
    cluster, engine, world, tmp_path, monkeypatch, capfd, loads
):
    flags = {"users.source": str(world / "users.csv"), "bank.source": str(world / "bank.csv")}
    # On the GPU of each node, and so on the one that dies; no other test's recipe has this batch size.
    flags |= {"encoder.name": "engine_tasks:SlowToLoad", "encoder.batch_size": 7}
    flags |= {"attack.names": "ordinary,nonce-mueff", "attack.probes": 12, "attack.pool": 40, "audit.trials": 3_000}
    flags |= {"cohorts.canaries": 2, "mechanism.k": 3}
    results = []
    losing = Losing(engine, lambda: cluster.remove_node(cluster.spare.pop(0), allow_graceful=False))
    for place, where, shards in (("local", Threads(2), 0), ("there", losing, 8)):
        monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / f"cache of {place}"))
        run = run_audit(resolve(flags=flags | {"run.shards": shards}), tmp_path / place, engine=where)
        results.append((run.folder / "results.json").read_bytes())
    assert results[0] == results[1]
    assert not losing.left
    assert losing.tasks >= 16  # two passes over eight shards
    assert 1 <= len(loaded_elsewhere(loads)) <= 2  # one may die before anybody asks it
    assert capfd.readouterr().out == ""  # results of a command stand there


def test_clusters_of_ours_and_others_follow_one_another_in_a_process(engine):
    for _ in range(2):
        assert list(Ray(1).run(abs, [-3])) == [(0, 3)]
        disconnect()
        assert list(Ray(1).run(abs, [-4])) == [(0, 4)]  # whose token is another
        assert list(engine.run(abs, [-5])) == [(0, 5)]


# It takes the last node that is left.
def test_a_cluster_without_nodes_is_given_up_with_a_sentence_and_not_before(cluster, engine, monkeypatch):
    monkeypatch.setattr(ray_engine, "_EMPTY", 3.0)
    results = engine.run(engine_tasks.draw, [(0, 0), (1, 6), (2, 200)])
    assert next(results)[0] == 0
    assert next(results)[0] == 1  # though it takes longer than that
    while cluster.spare:
        lose(cluster, cluster.spare.pop())
    with pytest.raises(IncompleteError, match=r"no core to run a task on for 3 seconds.*the same command goes on"):
        next(results)


def test_an_address_where_nobody_listens_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    disconnect()
    with pytest.raises(MissingError, match=f"No Ray cluster could be joined at '127.0.0.1:{port}' .*refused"):
        list(Ray(address=f"127.0.0.1:{port}").run(abs, [1]))


def test_without_ray_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[ray\]'"):
        Ray()  # so that a run says it before it designs or commits anything


def test_no_workers_are_refused():
    with pytest.raises(InputError, match="at least one worker, not 0"):
        Ray(0)


def test_an_address_is_refused_where_the_engine_joins_nothing():
    with pytest.raises(ConfigError, match=r"Set run.engine to ray, or leave run.address out"):
        build_engine(RunConfig(engine="threads", address="auto"))
    assert build_engine(RunConfig(engine="ray", address="auto", workers=3)) == Ray(3, "auto")


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_cluster, "_LONGEST", 1000)
    folder, lock = ray_cluster._locked_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "ray").mkdir()
    (folder / "ray" / "spilled").write_text("what somebody wrote")
    (tmp_path / "canarybank-ray-1-new").mkdir()  # its maker has not locked it yet
    (tmp_path / "canarybank-ray-2-link").symlink_to(folder)
    (tmp_path / "canarybank-ray-3-again" / "ray").mkdir(parents=True)  # a dying node made it anew
    os.utime(tmp_path / "canarybank-ray-3-again", (1.0, 1.0))
    another, held = ray_cluster._locked_folder()
    assert (folder / "ray" / "spilled").exists()
    os.close(lock)  # as the end of its process does
    third, last = ray_cluster._locked_folder()
    assert {path.name for path in tmp_path.iterdir()} == {
        "canarybank-ray-1-new",
        "canarybank-ray-2-link",
        another.name,
        third.name,
    }
    ray_cluster._remove(another, held)
    ray_cluster._remove(third, last)
