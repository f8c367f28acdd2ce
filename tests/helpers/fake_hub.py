"""A hub in this process that serves what real clients ask for over HTTP, and misbehaves on demand.

Files of `LFS_BYTES` and more are served as the hub serves large ones: by a redirect to content that is named by its
sha256, on the host `content_host`, under a link that holds for one request where `single_use_links` is set. Faults
wait in queues by file name; each takes one request.
"""

from __future__ import annotations

import hashlib
import json
import select
import socket
import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from re import fullmatch
from urllib.parse import parse_qs, quote, unquote, urlsplit

LFS_BYTES = 4096
CHUNK_BYTES = 64 * 1024
TOKEN = "hf_alice"


@dataclass(frozen=True)
class Fault:
    """What happens to one request."""

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    cut_after: int | None = None
    """The connection ends after so many bytes of the body."""
    stall_after: int | None = None
    """Nothing is sent any more after so many bytes of the body."""
    wrong_byte: int | None = None
    """This byte of the file is another."""
    longer_by: int = 0
    """The file has so many bytes more (fewer), and says so."""
    ignores_range: bool = False
    body: bytes | None = None
    """Sent instead of the content, with status 200."""
    unlabelled: bool = False
    """Without Content-Length: the end of the connection is the end of the body."""


def status(code: int, *, error: str = "", **headers: str) -> Fault:
    """An answer of this status; `error` is the hub's own code, keywords are headers with _ for -."""
    named = {"X-Error-Code": error} if error else {}
    named |= {key.replace("_", "-"): value for key, value in headers.items()}
    return Fault(status=code, headers=tuple(named.items()))


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    range: str
    host: str
    token: str
    status: int


@dataclass
class Repo:
    files: dict[str, bytes]
    gated: bool = False
    private: bool = False
    granted: set[str] = field(default_factory=set)
    """Tokens that may read it."""
    named_commit: str = ""
    """Its commit, where that is not to come from the files."""

    @property
    def commit(self) -> str:
        if self.named_commit:
            return self.named_commit
        digests = [f"{name} {blob_sha1(data)}\n".encode() for name, data in sorted(self.files.items())]
        return hashlib.sha1(b"".join(digests)).hexdigest()

    def siblings(self) -> list[dict[str, object]]:
        return [_sibling(name, data) for name, data in sorted(self.files.items())]


@lru_cache(maxsize=64)
def blob_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@lru_cache(maxsize=64)
def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def etag(data: bytes) -> str:
    """The name of a file's content in the cache."""
    return sha256(data) if len(data) >= LFS_BYTES else blob_sha1(data)


def _sibling(name: str, data: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": blob_sha1(data)}
    if len(data) >= LFS_BYTES:
        entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
    return entry


class FakeHub:
    """Serves `repos` from `with` to its end.

    What has left is close to what has arrived, since little fits between; `chunk_bytes` may be larger for speed.
    """

    def __init__(
        self, repos: dict[str, Repo], *, content_host: str = "localhost", chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self.repos = repos
        self.chunk_bytes = chunk_bytes
        self.bytes_per_s = 0.0
        """Throttles each file; 0 does not."""
        self.single_use_links = False
        self.moved_to = ""
        """Where everything is redirected to with 308, as mirrors do."""
        self.on_api: deque[Fault] = deque()
        self.on_search: deque[Fault] = deque()
        self.on_resolve: dict[str, deque[Fault]] = defaultdict(deque)
        self.on_content: dict[str, deque[Fault]] = defaultdict(deque)
        self.requests: list[Request] = []
        self.sent: dict[str, int] = defaultdict(int)
        """Bytes of bodies that left, by file."""
        self.lock = threading.Condition()
        self._links: set[str] = set()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._server.chunk_bytes = chunk_bytes
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.content_url = f"http://{content_host}:{self._server.server_port}"

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def asked(self, name: str) -> list[Request]:
        """The requests whose path ends with `name`."""
        return [request for request in self.requests if unquote(urlsplit(request.path).path).endswith(name)]

    def wait_until_sent(self, name: str, count: int) -> None:
        """Until so many bytes of a file have left, over all requests."""
        with self.lock:
            assert self.lock.wait_for(lambda: self.sent[name] >= count, timeout=60)

    def new_link(self) -> str:
        with self.lock:
            link = f"{len(self._links):08x}"
            self._links.add(link)
        return link

    def use_link(self, link: str) -> bool:
        with self.lock:
            known = link in self._links
            if self.single_use_links:
                self._links.discard(link)
                self._links.add(f"used {link}")
        return known


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    chunk_bytes: int

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.chunk_bytes)
        return connection, address

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no error."""


def _take(faults: deque[Fault]) -> Fault | None:
    return faults.popleft() if faults else None


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        pass

    Handler.hub = hub
    return Handler


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._route()

    def do_GET(self) -> None:
        self._route()

    @property
    def _token(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _head(self, code: int, headers: dict[str, str]) -> None:
        asked = (self.command, self.path, self.headers.get("Range") or "", self.headers.get("Host") or "", self._token)
        with self.hub.lock:
            self.hub.requests.append(Request(*asked, code))
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _whole(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self._head(code, {"Content-Length": str(len(body))} | (headers or {}))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, value: object, headers: dict[str, str]) -> None:
        self._whole(200, json.dumps(value).encode(), {"Content-Type": "application/json"} | headers)

    def _error(self, code: int, error: str = "") -> None:
        self._whole(code, b"{}", {"X-Error-Code": error, "X-Error-Message": error} if error else {})

    def _route(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        if hub.moved_to:
            self._whole(308, b"", {"Location": hub.moved_to + self.path})
        elif path == "/api/models":
            self._search(parse_qs(urlsplit(self.path).query))
        elif found := fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            self._info(found[1], found[2])
        elif found := fullmatch(r"/api/models/([^/]+/[^/]+)/tree/(.+)", path):
            self._tree(found[1])
        elif found := fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(found[1], found[2], found[3])
        elif found := fullmatch(r"/content/(\w+)/([^/]+/[^/]+)/(.+)", path):
            self._content(found[1], found[2], found[3])
        else:
            self._error(404)

    def _repo(self, name: str, *, content: bool = False) -> Repo | None:
        """The repository; None after the refusal was sent."""
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and self._token not in repo.granted):
            self._error(404 if self._token else 401, "RepoNotFound")
            return None
        if content and repo.gated and self._token not in repo.granted:
            self._error(403 if self._token else 401, "GatedRepo")
            return None
        return repo

    def _info(self, name: str, revision: str) -> None:
        if fault := _take(self.hub.on_api):
            if fault.body is not None:
                return self._whole(200, fault.body)
            return self._whole(fault.status, b"{}", dict(fault.headers))
        repo = self._repo(name)
        if repo is None:
            return None
        if revision not in {"main", repo.commit}:
            return self._error(404, "RevisionNotFound")
        info = {"_id": "0" * 24, "id": name, "modelId": name, "sha": repo.commit, "private": repo.private,
                "gated": "manual" if repo.gated else False, "disabled": False, "downloads": 0, "likes": 0, "tags": [],
                "siblings": repo.siblings()}  # fmt: skip
        if "blobs" not in parse_qs(urlsplit(self.path).query, keep_blank_values=True):
            info["siblings"] = [{"rfilename": entry["rfilename"]} for entry in repo.siblings()]
        return self._json(info, {"X-Repo-Commit": repo.commit})

    def _search(self, query: dict[str, list[str]]) -> None:
        if fault := _take(self.hub.on_search):
            if fault.stall_after is not None:
                return self._stall()
            return self._whole(fault.status or 200, fault.body or b"{}", dict(fault.headers))
        words, expanded = query["search"][0].lower().split(), query.get("expand", [])
        found = []
        for name, repo in self.hub.repos.items():
            if repo.private or not all(word in name.lower() for word in words):
                continue
            entry: dict[str, object] = {"_id": "0" * 24, "id": name}
            config = json.loads(repo.files.get("config.json", b"{}"))
            known = {"config": {key: config[key] for key in ("architectures", "model_type") if key in config},
                     "gated": "manual" if repo.gated else False, "downloads": len(name), "tags": []}  # fmt: skip
            if any(file.endswith(".safetensors") for file in repo.files):
                known["safetensors"] = {"parameters": {"BF16": 1}, "total": 1}
            found.append(entry | {key: value for key, value in known.items() if key in expanded})
        return self._json(found[: int(query["limit"][0])], {})

    def _stall(self) -> None:
        self.close_connection = True
        select.select([self.connection], [], [], 60)  # until the client hangs up

    def _tree(self, name: str) -> None:
        """For the real client alone."""
        repo = self._repo(name)
        if repo is None:
            return
        entries = []
        for entry in repo.siblings():
            lfs = entry.get("lfs")
            listed = {"type": "file", "path": entry["rfilename"], "size": entry["size"], "oid": entry["blobId"]}
            if isinstance(lfs, dict):
                listed["lfs"] = {"oid": lfs["sha256"], "size": lfs["size"], "pointerSize": 134}
            entries.append(listed)
        self._json(entries, {})

    def _resolve(self, name: str, revision: str, file: str) -> None:
        fault = _take(self.hub.on_resolve[file]) if self.command == "GET" else None
        if fault is not None and fault.status:
            return self._whole(fault.status, b"{}", dict(fault.headers))
        repo = self._repo(name, content=True)
        if repo is None:
            return None
        if revision not in {"main", repo.commit}:
            return self._error(404, "RevisionNotFound")
        if file not in repo.files:
            return self._error(404, "EntryNotFound")
        data = repo.files[file]
        if len(data) < LFS_BYTES:
            return self._send(repo, file)
        return self._whole(302, b"", {
            "X-Repo-Commit": repo.commit, "X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{etag(data)}"',
            "Location": f"{self.hub.content_url}/content/{self.hub.new_link()}/{name}/{quote(file)}",
        })  # fmt: skip

    def _content(self, link: str, name: str, file: str) -> None:
        if self.command == "GET" and not self.hub.use_link(link):
            return self._whole(403, b"<Error>link expired</Error>")
        return self._send(self.hub.repos[name], file)

    def _send(self, repo: Repo, file: str) -> None:
        fault = (_take(self.hub.on_content[file]) if self.command == "GET" else None) or Fault()
        if fault.status:
            return self._whole(fault.status, b"{}", dict(fault.headers))
        data = bytearray(repo.files[file])
        if fault.wrong_byte is not None:
            data[fault.wrong_byte] ^= 1
        data = data + bytes(fault.longer_by) if fault.longer_by >= 0 else data[: fault.longer_by]
        total, span = len(data), (0, len(data))
        asked = fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if asked and not fault.ignores_range:
            span = (int(asked[1]), min(total, int(asked[2]) + 1) if asked[2] else total)
            if span[0] >= total:
                return self._whole(416, b"", {"Content-Range": f"bytes */{total}"})
        part = asked and not fault.ignores_range
        headers = {"ETag": f'"{etag(repo.files[file])}"', "X-Repo-Commit": repo.commit, "Accept-Ranges": "bytes"}
        headers |= {"Content-Range": f"bytes {span[0]}-{span[1] - 1}/{total}"} if part else {}
        headers |= {"Connection": "close"} if fault.unlabelled else {"Content-Length": str(span[1] - span[0])}
        self._head(206 if part else 200, headers)
        if self.command == "GET":
            self._body(file, memoryview(data)[span[0] : span[1]], fault)
        return None

    def _body(self, file: str, body: memoryview, fault: Fault) -> None:
        ends = [end for end in (fault.cut_after, fault.stall_after) if end is not None]
        stop = min([len(body), *ends])
        begun = time.monotonic()
        for start in range(0, stop, self.hub.chunk_bytes):
            piece = body[start : min(stop, start + self.hub.chunk_bytes)]
            try:
                self.connection.sendall(piece)
            except OSError:
                self.close_connection = True
                return
            with self.hub.lock:
                self.hub.sent[file] += len(piece)
                self.hub.lock.notify_all()
            if self.hub.bytes_per_s:
                time.sleep(max(0.0, (start + len(piece)) / self.hub.bytes_per_s - (time.monotonic() - begun)))
        if fault.stall_after is not None:
            select.select([self.connection], [], [], 60)  # until the client hangs up
        if ends or fault.unlabelled:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
