"""Client and worker together: real child processes, ended, killed and disturbed in every way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import psutil
import pytest

from core.check_messages import Check, CheckedPrompt, CheckStarted, Verdict
from core.client import EngineClient, describe_exit, worker_command, worker_environment
from core.errors import WorkerDied, WorkerStartFailed
from core.pairs import Pair
from core.protocol import (
    ChatMessage,
    Done,
    Failed,
    Generate,
    GenerateOptions,
    Heartbeat,
    Hello,
    Load,
    Loaded,
    Log,
    Prefill,
    Progress,
    RequestFrame,
    Step,
    Unload,
    Unloaded,
    encode,
)

LIMIT_S = 60


@pytest.fixture
def loop():
    with asyncio.Runner() as runner:
        yield lambda work: runner.run(asyncio.wait_for(work, LIMIT_S))


@pytest.fixture
def make_client(loop):
    clients = []

    def make(*args, **kwargs):
        clients.append(EngineClient(*(args or ("terminal",)), **kwargs))
        return clients[-1]

    yield make
    for client in clients:
        loop(client.close())
        assert client.worker_pid is None


def question(pair, text="the cat sat", **options):
    return Generate(pair, (ChatMessage("user", text),), GenerateOptions(**options))


async def events_of(client, request):
    return [event async for event in await client.send(request)]


def kinds(events):
    """The events' types in order, repetitions once."""
    names = [type(event) for event in events]
    return [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]


def with_noise(code: str) -> list[str]:
    """A real worker in whose process `code` runs once it is about to serve."""
    return [
        sys.executable,
        "-P",
        "-c",
        f"import core.worker as w, os, sys\nserve = w.serve\ndef noisy(*a):\n    {code}\n    serve(*a)\n"
        "w.serve = noisy\nsys.argv = ['worker', '--owner', 'terminal']\nsys.exit(w.main())",
    ]


def test_the_worker_tells_what_it_runs_on(loop, make_client):
    hello = loop(make_client().start())
    assert isinstance(hello, Hello)
    assert hello.pid != os.getpid()
    assert hello.mlx_version
    assert hello.blas.verdict


def test_an_answer_loads_the_pair_then_streams(loop, make_client, tiny_pair):
    client = make_client()
    events = loop(events_of(client, question(tiny_pair, max_tokens=30, mode="gpu")))
    assert kinds(events) == [Progress, Loaded, Prefill, Step, Done]
    done = events[-1]
    assert done.tokens == 30
    assert done.text == "".join(event.text for event in events if isinstance(event, Step))
    again = loop(events_of(client, question(tiny_pair, max_tokens=30, mode="plain")))
    assert kinds(again) == [Prefill, Step, Done]
    assert again[-1].token_ids == done.token_ids


def test_a_check_loads_the_pair_and_ends_with_a_verdict(loop, make_client, tiny_pair):
    client = make_client()
    events = loop(events_of(client, Check(tiny_pair, ("the cat", "the dog"), 10)))
    modes = ("plain", "lookup", "gpu", "ane", "mirror", "auto")
    assert kinds(events) == [Progress, CheckStarted, *[Progress, CheckedPrompt] * 2 * len(modes), Verdict]
    verdict = events[-1]
    assert [(each.mode, each.equal) for each in verdict.modes] == [(mode, 2) for mode in modes]
    assert verdict.lossless
    again = loop(events_of(client, Check(tiny_pair, ("the cat",), 4, ("mirror",), 0.8, 5)))
    assert kinds(again) == [CheckStarted, *[Progress, CheckedPrompt] * 2, Verdict]
    assert again[-1].lossless


def test_cancel_in_the_middle_of_a_check(loop, make_client, tiny_pair):
    async def scenario(client):
        call = await client.send(Check(tiny_pair, ("the cat",) * 20, 200))
        events = []
        async for event in call:
            events.append(event)
            if isinstance(event, CheckedPrompt):
                await call.cancel()
        return events

    client = make_client()
    events = loop(scenario(client))
    assert events[-1].problem.kind == "Cancelled"
    assert 1 <= sum(isinstance(event, CheckedPrompt) for event in events) < 20
    assert loop(events_of(client, Check(tiny_pair, ("the cat",), 4, ("gpu",))))[-1].lossless


def test_a_check_that_cannot_be_made_is_told(loop, make_client, tiny_pair):
    client = make_client()
    *_, failed = loop(events_of(client, Check(Pair("target alone", tiny_pair.target, None), ("the cat",), 4, ("gpu",))))
    assert failed.problem.kind == "BadRequest"
    assert "has no draft" in failed.problem.sentence


def test_load_unload_and_load_again(loop, make_client, tiny_pair):
    client = make_client()
    loaded = loop(events_of(client, Load(tiny_pair)))[-1]
    assert (loaded.pair, loaded.modes, loaded.block_size) == (
        tiny_pair,
        ("plain", "lookup", "gpu", "ane", "mirror", "auto"),
        8,
    )
    assert loaded.plain_tokens_per_second > 0
    assert kinds(loop(events_of(client, Load(tiny_pair)))) == [Loaded]
    assert loop(events_of(client, Unload())) == [Unloaded()]
    assert kinds(loop(events_of(client, Load(tiny_pair)))) == [Progress, Loaded]


def test_a_pair_without_draft_decodes_plainly(loop, make_client, tiny_pair):
    plain = Pair("target alone", tiny_pair.target, None)
    client = make_client()
    *_, done = loop(events_of(client, question(plain, mode="plain", max_tokens=5)))
    assert done.tokens == 5
    *_, failed = loop(events_of(client, question(plain, mode="gpu")))
    assert failed.problem.kind == "BadRequest"
    assert "has no draft" in failed.problem.sentence


def test_errors_are_told_and_the_worker_goes_on(loop, make_client, tiny_pair):
    client = make_client()
    (_, failed) = loop(events_of(client, Load(Pair("nothing", "/nowhere.gguf", None))))
    assert failed.problem.kind == "MissingFile"
    pid = client.worker_pid
    assert isinstance(loop(events_of(client, question(tiny_pair, max_tokens=3)))[-1], Done)
    assert client.worker_pid == pid


def test_cancel_while_answering_keeps_the_text(loop, make_client, tiny_pair):
    async def scenario(client):
        call = await client.send(question(tiny_pair, max_tokens=4000))
        events = []
        async for event in call:
            events.append(event)
            if isinstance(event, Step) and len(events) % 5 == 0:
                await call.cancel()
        return events

    client = make_client()
    events = loop(scenario(client))
    done = events[-1]
    assert done.finish_reason == "cancelled"
    assert 0 < done.tokens < 4000
    assert done.text == "".join(event.text for event in events if isinstance(event, Step))
    assert kinds(loop(events_of(client, question(tiny_pair, max_tokens=3))))[-1] is Done


@pytest.mark.parametrize(("request_", "last"), [(Load, Failed), (question, Done)], ids=["load", "generate"])
def test_cancel_while_loading(loop, make_client, tiny_pair, request_, last):
    async def scenario(client):
        call = await client.send(request_(tiny_pair))
        await call.cancel()  # the first load imports mlx-lm for seconds: the request stands at its beginning
        return [event async for event in call]

    client = make_client()
    event = loop(scenario(client))[-1]
    assert isinstance(event, last)
    if isinstance(event, Done):
        assert (event.tokens, event.finish_reason) == (0, "cancelled")
    else:
        assert event.problem.kind == "Cancelled"
    assert isinstance(loop(events_of(client, Load(tiny_pair)))[-1], Loaded)


def test_a_killed_worker_is_told_and_the_next_message_works(loop, make_client, tiny_pair):
    async def scenario(client):
        events = []
        async for event in await client.send(question(tiny_pair, max_tokens=4000)):
            events.append(event)
            if isinstance(event, Step) and client.worker_pid:
                os.kill(client.worker_pid, signal.SIGKILL)
        return events

    client = make_client()
    events = loop(scenario(client))
    failed = events[-1]
    assert failed.problem.kind == "WorkerDied"
    assert "SIGKILL" in failed.problem.sentence
    assert any(isinstance(event, Step) for event in events)
    assert client.worker_pid is None
    done = loop(events_of(client, question(tiny_pair, max_tokens=10)))[-1]
    assert done.tokens == 10


def test_a_worker_that_dies_at_its_start_is_told(loop, make_client, tiny_pair):
    client = make_client(
        command=[sys.executable, "-c", "import sys; sys.exit(print('no mlx here', file=sys.stderr) or 3)"]
    )
    (failed,) = loop(events_of(client, Load(tiny_pair)))
    assert "exit code 3" in failed.problem.sentence
    assert "no mlx here" in failed.problem.detail
    with pytest.raises(WorkerDied):
        loop(client.start())


def test_a_worker_that_cannot_be_started_is_told(loop, make_client, tiny_pair):
    client = make_client(command=["/nonexistent/python"])
    (failed,) = loop(events_of(client, Load(tiny_pair)))
    assert failed.problem.kind == "WorkerStartFailed"
    with pytest.raises(WorkerStartFailed):
        loop(client.start())


@pytest.mark.parametrize(
    "code",
    ["print('hello from a library')", "os.write(1, bytes(range(256)) * 1000)", "os.system('echo from a child')"],
    ids=["print", "bytes", "child"],
)
def test_whatever_is_printed_in_the_worker_breaks_no_frame(loop, make_client, tiny_pair, code):
    logged = []
    client = make_client(command=with_noise(code), on_event=logged.append)
    assert isinstance(loop(events_of(client, question(tiny_pair, max_tokens=5)))[-1], Done)
    assert any(isinstance(event, Log) for event in logged)


def test_a_program_that_speaks_no_protocol_is_ended(loop, make_client, tiny_pair):
    client = make_client(command=[sys.executable, "-c", "import time; print('x' * 5000, flush=True); time.sleep(600)"])
    (failed,) = loop(events_of(client, Load(tiny_pair)))
    assert failed.problem.kind == "ProtocolError"
    assert client.worker_pid is None


def test_an_unforeseen_error_is_told_with_its_traceback(loop, make_client, tiny_pair):
    code = "import core.engine.service as s; s.Service._load = lambda *a: 1 / 0"
    client = make_client(command=with_noise(code))
    for _ in range(2):
        (failed,) = loop(events_of(client, Load(tiny_pair)))
        assert failed.problem.kind == "InternalError"
        assert "ZeroDivisionError" in failed.problem.detail


def test_heartbeats_come_while_the_worker_is_busy(loop, make_client, tiny_pair):
    async def scenario():
        beats = asyncio.Queue()
        client = make_client(on_event=lambda event: isinstance(event, Heartbeat) and beats.put_nowait(event))
        call = await client.send(question(tiny_pair, max_tokens=4000))
        told = [await beats.get() for _ in range(3)]
        await call.cancel()
        assert isinstance([event async for event in call][-1], Done)
        return told

    for beat in loop(scenario()):
        assert beat.rss_bytes > 10_000_000
        assert 0 < beat.free_bytes < psutil.virtual_memory().total


def test_heartbeats_tell_what_is_held_of_earlier_conversations(loop, make_client, tiny_pair):
    async def scenario():
        beats = asyncio.Queue()
        client = make_client(on_event=lambda event: isinstance(event, Heartbeat) and beats.put_nowait(event.held_bytes))
        await events_of(client, question(tiny_pair, "one", max_tokens=8))
        assert await beats.get() == 0
        await events_of(client, question(tiny_pair, "another", max_tokens=8))
        while not await beats.get():
            pass
        await events_of(client, Unload())
        while await beats.get():
            pass

    loop(scenario())


def test_one_engine_a_machine(loop, make_client, tiny_pair):
    first, second = make_client("window"), make_client("terminal")
    loop(events_of(first, Load(tiny_pair)))
    (failed,) = loop(events_of(second, question(tiny_pair)))
    assert failed.problem.kind == "EngineBusy"
    assert f"window (process {first.worker_pid})" in failed.problem.sentence
    loop(events_of(first, Unload()))
    assert isinstance(loop(events_of(second, question(tiny_pair, max_tokens=2)))[-1], Done)


def test_closing_ends_the_worker_with_exit_code_0(loop, make_client, tiny_pair):
    client = make_client()
    loop(events_of(client, Load(tiny_pair)))
    process = client._process
    loop(client.close())
    assert process.returncode == 0


def test_closing_in_mid_answer_ends_everything(loop, make_client, tiny_pair):
    async def scenario(client):
        call = await client.send(question(tiny_pair, max_tokens=4000))
        events = call.__aiter__()
        while not isinstance(await anext(events), Step):
            pass
        pid = client.worker_pid
        await client.close()
        last = [event async for event in events][-1]
        return pid, last

    pid, last = loop(scenario(make_client()))
    assert isinstance(last, Done)
    assert last.finish_reason == "cancelled"
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_the_worker_ends_when_its_parent_is_gone(tiny_pair, busy):
    worker = subprocess.Popen(
        worker_command("terminal"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=worker_environment()
    )
    if busy:
        worker.stdin.write(encode(RequestFrame(1, question(tiny_pair, max_tokens=4000))))
        worker.stdin.flush()
    assert worker.stdout.read(4), "the greeting, or a heartbeat"
    worker.stdin.close()
    assert worker.wait(LIMIT_S) == 0
    worker.stdout.close()


def test_a_core_folder_in_the_users_folder_is_not_imported(loop, make_client, tmp_path, monkeypatch):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise SystemExit('the wrong core')")
    monkeypatch.chdir(tmp_path)
    assert isinstance(loop(make_client().start()), Hello)


@pytest.mark.parametrize(
    ("returncode", "words"), [(0, "exit code 0"), (-9, "SIGKILL"), (-250, "signal 250"), (None, "exit code None")]
)
def test_ends_are_named(returncode, words):
    assert describe_exit(returncode) == words
