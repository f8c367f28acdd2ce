"""How the hub is reached: endpoint, proxy, token; and that secrets stay secret."""

from __future__ import annotations

import logging
import ssl
import subprocess
import sys
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler

import msgspec
import pytest

from core.errors import BadHubSetting, HubUnreachable, HubUntrusted, MirrorError, UnreadableAnswer
from core.hub.client import HubClient
from core.hub.listing import list_model
from core.hub.settings import HubSettings, from_environment
from core.hub.token import KEYRING_SERVICE, KEYRING_USER, read_token
from helpers.downloads import HASTY, REPO, WEIGHTS, new_download
from helpers.fake_hub import TOKEN, FakeHub, Fault, status
from helpers.loop import in_loop

UNKNOWN = "http://hub.invalid"


async def listed(settings: HubSettings) -> str:
    async with HubClient(settings, HASTY.stall_s, HASTY.questions) as client:
        return (await list_model(client, REPO)).repo


@in_loop
async def test_a_proxy_that_is_named_is_used(hub):
    assert await listed(HubSettings(UNKNOWN, proxy=hub.url)) == REPO
    assert hub.requests[-1].host == "hub.invalid"


@in_loop
async def test_the_proxy_of_the_environment_is_used_but_for_its_exceptions(hub, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", hub.url)
    assert await listed(HubSettings(UNKNOWN)) == REPO
    monkeypatch.setenv("NO_PROXY", "hub.invalid")
    with pytest.raises(HubUnreachable, match=r"hub\.invalid cannot be reached"):
        await listed(HubSettings(UNKNOWN))


@in_loop
async def test_a_proxy_that_is_not_there_is_told():
    with pytest.raises(
        HubUnreachable, match=r"hub\.invalid cannot be reached through the proxy 127\.0\.0\.1:9"
    ) as told:
        await listed(HubSettings(UNKNOWN, proxy="http://user:pass-word@127.0.0.1:9"))
    assert "--proxy" in told.value.problem.hint


@pytest.mark.parametrize("proxy", ["ftp://host", "socks5://host:1080", "http://[", "no address"])
@in_loop
async def test_a_proxy_that_makes_no_sense_is_told(hub, proxy):
    with pytest.raises(BadHubSetting, match="proxy's address"):
        await listed(HubSettings(hub.url, proxy=proxy))


@pytest.mark.parametrize(
    "endpoint", ["ftp://hub", "hub.example", "http://", "", "http://[", "https://user@", "ht tp://x"]
)
@in_loop
async def test_an_endpoint_that_makes_no_sense_is_told(endpoint):
    with pytest.raises(BadHubSetting, match="is not a web address"):
        await listed(HubSettings(endpoint))


def test_the_environment_is_that_of_the_hubs_own_client(tmp_path):
    code = "from core.hub.settings import from_environment as f; print(f()); print(f('http://x/', 'http://p', True))"
    home = str(tmp_path)
    environment = {"HF_ENDPOINT": "https://mirror.example/", "HF_HUB_OFFLINE": "1", "HF_HOME": home}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    ours, named = run.stdout.splitlines()
    assert ours == str(HubSettings("https://mirror.example", offline=True, cache=f"{home}/hub"))
    assert named == str(HubSettings("http://x", "http://p", True, f"{home}/hub"))


def test_what_is_named_comes_before_the_environment():
    named = from_environment("https://mirror.example/", "http://proxy", True, "/models")
    assert named == HubSettings("https://mirror.example", "http://proxy", True, "/models")


@pytest.fixture
def keyring(monkeypatch, tmp_path):
    """A package with the interface of keyring, which is optional; returns the file that says what it does."""
    package = tmp_path / "packages" / "keyring"
    package.mkdir(parents=True)
    (package / "errors.py").write_text("class KeyringError(Exception):\n    pass\n")
    monkeypatch.syspath_prepend(package.parent)
    yield package / "__init__.py"
    for name in ("keyring", "keyring.errors"):
        sys.modules.pop(name, None)


def test_the_token_is_that_of_the_environment_then_the_keyring_then_the_file(monkeypatch, token_file, keyring):
    known = (KEYRING_SERVICE, KEYRING_USER)
    keyring.write_text(f"def get_password(*asked):\n    return 'hf_ring' if asked == {known} else None\n")
    token_file.write_text("hf_file\n")
    assert read_token() == "hf_ring"
    monkeypatch.setenv("HF_TOKEN", "hf_env")
    assert read_token() == "hf_env"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    assert read_token() is None


def test_without_a_keyring_the_token_is_that_of_the_file(token_file):
    assert read_token() is None
    token_file.write_text("hf_file\n")
    assert read_token() == "hf_file"


def test_a_keyring_that_does_not_answer_is_passed_over(token_file, keyring, caplog):
    keyring.write_text("from keyring.errors import KeyringError\ndef get_password(*_):\n    raise KeyringError\n")
    token_file.write_text("hf_file\n")
    assert read_token() == "hf_file"
    assert "keyring does not answer: KeyringError" in caplog.text


def test_a_token_file_that_cannot_be_read_is_told(token_file):
    token_file.mkdir()
    with pytest.raises(BadHubSetting, match="token cannot be read") as told:
        read_token()
    assert str(token_file) in told.value.problem.hint


@in_loop
async def test_the_token_is_read_at_every_attempt(hub, settings, token_file):
    token_file.write_text("hf_old")
    hub.on_content[WEIGHTS].append(Fault(cut_after=100_000))
    hub.bytes_per_s = 1_000_000
    download = new_download(settings)

    def renew() -> None:
        hub.wait_until_sent(WEIGHTS, 50_000)
        token_file.write_text("hf_new")
        hub.bytes_per_s = 0

    renewing = threading.Thread(target=renew)
    renewing.start()
    await download.run()
    renewing.join()
    tokens = [request.token for request in hub.asked(WEIGHTS) if request.path.startswith(f"/{REPO}/resolve")]
    assert tokens == ["hf_old", "hf_new"]


@in_loop
async def test_a_mirror_that_leads_elsewhere_does_not_pass_the_token_on(hub, token_file):
    token_file.write_text(TOKEN)
    with FakeHub({}) as mirror:
        mirror.moved_to = hub.url
        await listed(HubSettings(mirror.url))
    assert [request.token for request in mirror.requests] == [TOKEN]
    assert [request.token for request in hub.requests] == [""]


@in_loop
async def test_neither_token_nor_proxy_password_is_logged_or_told(hub, token_file, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    token_file.write_text("hf_secret")
    told = []
    for proxy, faults in [
        (hub.url.replace("//", "//user:pass-word@"), [status(401)]),
        ("http://user:pass-word@127.0.0.1:9", []),
        ("ftp://user:pass-word@host", []),
        ("", [status(403)]),
        ("", [status(403, error="GatedRepo")]),
        ("", [status(500)] * 4),
    ]:
        hub.on_resolve["config.json"].extend(faults)
        settings = HubSettings(hub.url, proxy=proxy, cache=str(tmp_path / "cache"))
        with pytest.raises(MirrorError) as failed:
            await new_download(settings).run()
        told.append(msgspec.json.encode(failed.value.problem).decode() + repr(failed.value))
        hub.on_resolve["config.json"].clear()
    assert any(request.token == "hf_secret" for request in hub.requests)
    everything = "\n".join(told) + caplog.text
    assert "hf_secret" not in everything
    assert "pass-word" not in everything


@pytest.fixture
def untrusted(tmp_path):
    """The address of a server whose certificate nobody signed."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    try:
        subprocess.run([*make, "-keyout", str(key), "-out", str(certificate)], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl here to make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    server.handle_error = lambda *_: None
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


@in_loop
async def test_a_certificate_that_is_not_valid_is_told_at_once(untrusted):
    with pytest.raises(HubUntrusted, match="certificate of localhost is not valid") as told:
        await listed(HubSettings(untrusted))
    assert "SSL_CERT_FILE" in told.value.problem.hint


@pytest.mark.parametrize("target", ["file:///etc/passwd", "http://["])
@in_loop
async def test_a_redirect_to_no_web_address_is_not_followed(hub, target):
    hub.on_api.append(status(302, Location=target))
    with pytest.raises((HubUntrusted, UnreadableAnswer)):
        await listed(HubSettings(hub.url))
    assert len(hub.requests) == 1


@in_loop
async def test_a_circle_of_redirects_ends(hub):
    hub.moved_to = hub.url
    with pytest.raises(MirrorError, match="redirects in circles"):
        await listed(HubSettings(hub.url))
    assert len(hub.requests) == 10
