"""Workers of a search: each gives the same answers, and nothing is lost with a worker."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from flowc.machines import search_workers as teams_of_workers
from flowc.machines.search_workers import ALONE, SearchWorkers, cluster, processes
from flowc.model.diagnostic import Errors
from flowc.search.budget import Budget
from flowc.search.deadline.auto import search

import search_worker_jobs
from builds import HANGS
from jointly import crowded

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
#: So many that everything in a search has its turn.
EVALUATIONS = 12


@pytest.fixture(scope="module")
def two() -> Iterator[SearchWorkers]:
    with processes(2) as search_workers:
        yield search_workers


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        worker_dashboard_address=None,
        silence_logs=50,
    ) as found:
        yield found


# -- processes -------------------------------------------------------------------------------------
def test_answers_come_in_order_from_any_worker(two: SearchWorkers) -> None:
    for search_workers in (ALONE, two):
        assert search_workers.run(search_worker_jobs.added, 10, range(5)) == [10, 11, 12, 13, 14]


def test_what_a_worker_raises_is_raised_here(two: SearchWorkers) -> None:
    for search_workers in (ALONE, two):
        with pytest.raises(ValueError, match="why"):
            search_workers.run(search_worker_jobs.refusing, "why", range(3))


def test_a_dead_worker_costs_time_only(two: SearchWorkers, tmp_path: Path) -> None:
    assert two.run(search_worker_jobs.dying, str(tmp_path / "mark"), range(6)) == list(range(6))
    assert (tmp_path / "mark").exists() and not two.told


def test_where_workers_keep_dying_the_rest_is_done_here() -> None:
    with processes(2) as search_workers:
        assert search_workers.run(search_worker_jobs.always_dying, os.getpid(), range(3)) == [
            0,
            1,
            2,
        ]
        assert [d.code for d in search_workers.told] == ["F646"] and search_workers.size == 1


def test_what_killed_too_many_workers_is_done_here() -> None:
    """As Dask says it: a task is not given to workers again and again that die of it."""

    class Killed(Exception):
        pass

    class Killing(Executor):
        def submit(self, *work: object, **others: object) -> Future[int]:  # type: ignore[override]
            future: Future[int] = Future()
            future.set_exception(Killed("of this task"))
            return future

    search_workers = SearchWorkers(2, Killing, gone=Killed, restarts=0)
    assert search_workers.run(search_worker_jobs.added, 1, [1, 2]) == [2, 3]
    assert [d.code for d in search_workers.told] == [
        "F646"
    ] and "of this task" in search_workers.told[0].message


def test_no_worker_is_left_behind_whatever_it_did() -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt), processes(2) as search_workers:
        search_workers.run(search_worker_jobs.added, 1, [1, 2])
        assert len(set(multiprocessing.active_children()) - before) == 2
        raise KeyboardInterrupt
    end = time.monotonic() + HANGS
    while not set(multiprocessing.active_children()) <= before:
        # the pool has a thread that waits for them as well
        assert time.monotonic() < end
        time.sleep(0.01)


# -- searches --------------------------------------------------------------------------------------
def test_counted_searches_depend_on_the_seed_only(two: SearchWorkers) -> None:
    """And neither on time nor on who helps."""
    problem = crowded()
    found = [
        search(
            problem, name="auto", seed=3, budget=Budget(evaluations=EVALUATIONS), search_workers=c
        )
        for c in (ALONE, two)
    ]
    assert len({(o.assignment, o.bound, o.evaluations, o.counted) for o in found}) == 1
    assert found[0].limit == EVALUATIONS <= found[0].counted < found[0].evaluations
    assert found[0].assignment is not None


# -- a cluster -------------------------------------------------------------------------------------
def test_a_cluster_gives_the_same_answer_though_a_worker_is_killed(scheduler: Any) -> None:
    problem, budget = crowded(), Budget(evaluations=EVALUATIONS)
    alone = search(problem, name="auto", seed=5, budget=budget)
    with cluster(scheduler.scheduler_address) as search_workers:
        assert search_workers.size == 2 and not search_workers.told
        assert search_workers.run(search_worker_jobs.added, 1, range(4)) == [1, 2, 3, 4]
        (worker, *_) = scheduler.workers.values()
        killed = worker.worker_address
        os.kill(worker.pid, 9)
        helped = search(problem, name="auto", seed=5, budget=budget, search_workers=search_workers)
        # behind it, the word that one is gone has come
        assert search_workers.run(search_worker_jobs.added, 1, range(2)) == [1, 2]
        assert [d.code for d in search_workers.told] == ["F656"] and killed in search_workers.told[
            0
        ].message
    assert (helped.assignment, helped.bound) == (alone.assignment, alone.bound)


def test_workers_with_another_flowc_are_refused(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teams_of_workers, "identity", lambda: "another")
    with pytest.raises(Errors) as refused, cluster(scheduler.scheduler_address):
        pass
    assert [d.code for d in refused.value.diagnostics] == ["F644"] and "another" in str(
        refused.value
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key and a certificate that vouches for itself."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=flowc"
    words = [*command.split(), "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(words, check=True, capture_output=True, timeout=HANGS)
    return folder


def tls(folder: Path, *roles: str) -> dict[str, str]:
    """What Dask's configuration says of it."""
    names = {"distributed.comm.tls.ca-file": str(folder / "cert.pem")}
    for role in roles:
        names[f"distributed.comm.tls.{role}.cert"] = str(folder / "cert.pem")
        names[f"distributed.comm.tls.{role}.key"] = str(folder / "key.pem")
    return names


def test_a_cluster_with_tls(certificates: Path) -> None:
    with dask.config.set(tls(certificates, "client", "scheduler", "worker")):
        made = distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, protocol="tls://", processes=False, dashboard_address=":0",
            security=distributed.Security(), worker_dashboard_address=None, silence_logs=50,
        )  # fmt: skip
        with made as there, cluster(there.scheduler_address) as search_workers:
            assert there.scheduler_address.startswith("tls://") and not search_workers.told
            assert search_workers.run(search_worker_jobs.added, 1, range(3)) == [1, 2, 3]


@pytest.mark.parametrize("named", [{}, {"distributed.comm.tls.client.cert": "/no/such/file"}])
def test_tls_without_certificates(named: dict[str, str], certificates: Path) -> None:
    configured = dask.config.set({**(tls(certificates, "client") if named else {}), **named})
    with configured, pytest.raises(Errors) as refused, cluster("tls://127.0.0.1:9"):
        pass
    (fault,) = refused.value.diagnostics
    assert fault.code == "F645" and "needs certificates" in fault.message
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in (fault.help or "")


def test_what_is_not_encrypted_is_said_where_it_leaves_the_machine(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teams_of_workers, "_reached", lambda address: False)
    with cluster(scheduler.scheduler_address) as search_workers:
        assert [d.code for d in search_workers.told] == [
            "F646"
        ] and "run code here" in search_workers.told[0].message


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:9", "nowhere at all", "http://127.0.0.1:9", "127.0.0.1"]
)
def test_no_scheduler(address: str) -> None:
    with pytest.raises(Errors) as refused, cluster(address):
        pass
    assert [d.code for d in refused.value.diagnostics] == ["F645"]
