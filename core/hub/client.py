"""Requests to the hub: redirects, the token, and a typed error for every answer that is not the wanted one.

Redirects are followed here, since the token may go to the hub alone: never to a content server.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import anyio.streams.tls
import httpx2

from core import __version__
from core.errors import (
    BadHubSetting,
    ConnectionLost,
    HubOffline,
    HubUnreachable,
    HubUntrusted,
    MirrorError,
    TransferStalled,
    UnreadableAnswer,
)
from core.hub.answers import TryAgain, check_status
from core.hub.retry import SHORT, STALL_S, RetryPolicy
from core.hub.settings import OTHER_ADDRESS, PUBLIC_HUB, HubSettings
from core.hub.token import read_token

MAX_REDIRECTS = 10
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MIRROR_HINT = (
    f"Check the connection. Where the hub is blocked, a mirror of it helps: {OTHER_ADDRESS}. "
    "A proxy is named there too (--proxy)."
)
_MIRROR = f"Choose another mirror: {OTHER_ADDRESS}."
_ONLINE = "Turn it off in the window's settings; in a terminal leave out --offline and HF_HUB_OFFLINE."
_TRUSTED = frozenset({PUBLIC_HUB, "https://hf.co"})


class Answer:
    """The answer to a request for content, its body still to come."""

    def __init__(self, response: httpx2.Response, linked_size: int | None) -> None:
        self._response = response
        self.host = response.url.host
        self.status = response.status_code
        self.content_range: str = response.headers.get("Content-Range", "")
        self.encoded: bool = response.headers.get("Content-Encoding", "identity").lower() != "identity"
        length = response.headers.get("Content-Length", "")
        self.body_bytes = int(length) if length.isdigit() and not self.encoded else None
        self.linked_size = linked_size
        """The whole file's size as the hub's redirect tells it; None where it does not."""

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises `TryAgain` where it ends early or stalls."""
        with told(self.host):
            # What is not encoded needs no decoder, which takes time for each of many small chunks.
            async for chunk in self._response.aiter_bytes() if self.encoded else self._response.aiter_raw():
                yield chunk


class HubClient:
    """An open line to the hub; an async context manager.

    `stall_s` seconds without a connection or a byte end an attempt; `patience` is how small questions are asked again.
    """

    def __init__(self, settings: HubSettings, stall_s: float = STALL_S, patience: RetryPolicy = SHORT) -> None:
        self.settings = settings
        self.patience = patience
        self._timeout = httpx2.Timeout(stall_s)
        self._http: httpx2.AsyncClient | None = None
        self._trusted = _TRUSTED

    async def __aenter__(self) -> HubClient:
        self._http = await asyncio.to_thread(self._connect)  # reads the system's certificates
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.aclose()

    def _connect(self) -> httpx2.AsyncClient:
        origin = _checked_origin(self.settings.endpoint)
        self._trusted = _TRUSTED | {origin, origin.replace("http://", "https://")}
        headers = {"User-Agent": f"mirror-sd/{__version__}", "Accept-Encoding": "identity"}
        anyio.run(anyio.sleep, 0)  # loads here what the first request would load in the event loop
        try:
            urlsplit(self.settings.proxy)
            return httpx2.AsyncClient(proxy=self.settings.proxy or None, timeout=self._timeout, headers=headers)
        except (ValueError, ImportError, httpx2.InvalidURL) as error:
            # The proxy's address may hold a password: neither it nor the error's text is shown.
            raise BadHubSetting(
                "The proxy's address cannot be used.",
                "It looks like http://host:port; SOCKS needs the package socksio.",
                type(error).__name__,
            ) from None

    @asynccontextmanager
    async def open(self, url: str, byte_range: str = "") -> AsyncIterator[Answer]:
        """The answer to a GET of `url` after all redirects, for a `byte_range` as in `0-99` or `100-`.

        Raises `MirrorError` for what no further attempt changes, `TryAgain` for the rest. 416 is an answer.
        """
        response, linked_size = await self._follow(url, {"Range": f"bytes={byte_range}"} if byte_range else {})
        try:
            yield Answer(response, linked_size)
        finally:
            await response.aclose()

    async def _follow(self, url: str, headers: dict[str, str]) -> tuple[httpx2.Response, int | None]:
        if self.settings.offline:
            raise HubOffline(
                "This needs the hub, and offline mode is on.",
                "Turn it off in the window's settings; in a terminal, leave out --offline and HF_HUB_OFFLINE.",
            )
        token = await asyncio.to_thread(read_token)
        linked_size: int | None = None
        for hop in range(MAX_REDIRECTS):
            response = await self._send(url, headers, token)
            if not response.has_redirect_location:
                await self._check(response, bool(token), redirected=hop > 0)
                return response, linked_size
            await response.aclose()
            size = response.headers.get("X-Linked-Size", "")
            linked_size = int(size) if size.isdigit() else linked_size
            url = _next(url, response.headers["Location"])
        raise UnreadableAnswer(f"{self.settings.endpoint} redirects in circles.", _MIRROR, url)

    async def _send(self, url: str, headers: dict[str, str], token: str | None) -> httpx2.Response:
        assert self._http is not None, "the client is not open"
        with told(urlsplit(url).hostname or url, _proxy_of(url, self.settings.proxy)):
            may_see_token = _origin(url) in self._trusted
            login = {"Authorization": f"Bearer {token}"} if token and may_see_token else {}
            return await self._http.send(self._http.build_request("GET", url, headers=headers | login), stream=True)

    async def _check(self, response: httpx2.Response, has_token: bool, *, redirected: bool) -> None:
        try:
            check_status(response.status_code, response.headers, response.url.host, has_token, redirected)
        except BaseException:
            await response.aclose()
            raise

    async def get(self, path: str) -> bytes:
        """The body of `path` below the endpoint. Raises as `open` does, and `UnreadableAnswer` for a huge one."""
        body = bytearray()
        async with self.open(self.settings.endpoint + path) as answer:
            async for chunk in answer.chunks():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise unreadable(answer.host, f"more than {MAX_ANSWER_BYTES} bytes of {path}")
        return bytes(body)


def unreadable(host: str, detail: str) -> UnreadableAnswer:
    """The error for an answer that no hub gives."""
    hint = "A network's login page may be in between: open a page in the browser. Or choose another mirror."
    return UnreadableAnswer(f"{host} does not answer as a hub does.", hint, detail)


def _checked_origin(endpoint: str) -> str:
    """Raises `BadHubSetting` where the endpoint is no web address."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadHubSetting(f"The hub's address {endpoint!r} is not a web address.", "It begins with https://.")
    return _origin(endpoint)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def _next(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
        old, new = urlsplit(url).scheme, urlsplit(target).scheme
    except ValueError as error:
        raise unreadable(urlsplit(url).netloc, f"it redirects to {location!r}") from error
    if new not in {"http", "https"} or (old == "https" and new == "http"):
        raise HubUntrusted(
            f"{urlsplit(url).hostname} redirects to an address that is not encrypted.",
            _MIRROR,
            f"{old} to {new}, {urlsplit(target).hostname}",
        )
    return target


def _proxy_of(url: str, named: str) -> str:
    """The host of the proxy that stands before `url`; empty where there is none."""
    parts = urlsplit(url)
    by_scheme = getproxies()
    if not named and not proxy_bypass(parts.netloc):
        named = by_scheme.get(parts.scheme) or by_scheme.get("all", "")
    return named.rpartition("@")[2].rpartition("://")[2].strip("/")


@contextmanager
def told(host: str, proxy: str = "") -> Iterator[None]:
    """Turns the faults of a connection to `host` into our own."""
    try:
        yield
    except httpx2.ReadTimeout as error:
        raise TryAgain(
            TransferStalled(f"{host} sends no more bytes.", "Try again later; what has arrived is kept.", repr(error))
        ) from error
    except (httpx2.ConnectError, httpx2.TimeoutException, httpx2.ProxyError) as error:
        raise _unreachable(host, proxy, error) from error
    except httpx2.DecodingError as error:
        raise unreadable(host, repr(error)) from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
        raise BadHubSetting(f"{host} is no address that can be asked.", _MIRROR, repr(error)) from error
    except httpx2.TransportError as error:
        raise TryAgain(
            ConnectionLost(f"The connection to {host} broke off.", "Try again; what has arrived is kept.", repr(error))
        ) from error


def _unreachable(host: str, proxy: str, error: httpx2.TransportError) -> MirrorError | TryAgain:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return HubUntrusted(
                f"The certificate of {host} is not valid.",
                "A proxy of your company may be in between: set SSL_CERT_FILE to its certificate.",
                str(cause),
            )
        cause = cause.__cause__ or cause.__context__
    through = f" through the proxy {proxy}" if proxy else ""
    return TryAgain(HubUnreachable(f"{host} cannot be reached{through}.", MIRROR_HINT, repr(error)))
