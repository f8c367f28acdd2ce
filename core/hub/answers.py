"""What a status of the hub means: a fault that may pass, or an error with its own name."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from core.errors import (
    FileNotOnHub,
    GatedModel,
    HubBusy,
    HubFault,
    HubRefused,
    LinkExpired,
    MirrorError,
    ModelNotFound,
    RevisionNotFound,
    TokenRefused,
)
from core.hub.settings import OTHER_ADDRESS

MAX_WAIT_S = 600.0
_LOGIN_HINT = "Log in with `hf auth login`, or set HF_TOKEN."


class TryAgain(Exception):
    """A fault that may pass: `error` is what to tell when it does not, `wait_s` what the server asks to wait."""

    def __init__(self, error: MirrorError, wait_s: float | None = None) -> None:
        super().__init__(error.problem.sentence)
        self.error = error
        self.wait_s = wait_s


def check_status(status: int, headers: Mapping[str, str], host: str, has_token: bool, redirected: bool) -> None:
    """Raise what the answer means: `TryAgain` or a `MirrorError`. Success and 416 pass.

    `redirected`: it came from where the hub's redirect led. `headers` must not care for case.
    """
    code = headers.get("X-Error-Code", "")
    detail = f"{host} answered {status} {code} {headers.get('X-Error-Message', '')}".rstrip()
    if status < HTTPStatus.MULTIPLE_CHOICES or status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        busy = HubBusy(f"{host} asks to slow down.", "Wait some minutes; logged-in users may ask more often.", detail)
        raise TryAgain(busy, _retry_after_s(headers))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT:
        fault = HubFault(f"{host} has a fault of its own ({status}).", "Try again later, or choose a mirror.", detail)
        raise TryAgain(fault, _retry_after_s(headers))
    if redirected and not code:
        # Links to the content network expire; its 403 says nothing about the model.
        expired = LinkExpired(
            f"The content server {host} refuses the hub's link ({status}).",
            f"Try again; if it stays, a proxy or mirror may alter the link: {OTHER_ADDRESS}.",
            detail,
        )
        raise TryAgain(expired)
    raise _refusal(status, code, host, has_token, detail)


def _refusal(status: int, code: str, host: str, has_token: bool, detail: str) -> MirrorError:
    if code == "GatedRepo":
        ask = "Ask for access on the model's page, then try again."
        return GatedModel(
            "This model is gated: its owner gives access on request.",
            ask if has_token else f"{ask} {_LOGIN_HINT}",
            detail,
        )
    if code == "RevisionNotFound":
        return RevisionNotFound("The model has no such revision.", "Check the name of the branch or commit.", detail)
    if code == "EntryNotFound":
        return FileNotOnHub("The model does not have this file.", "Its owner may have changed it: plan anew.", detail)
    if code == "RepoNotFound" or status == HTTPStatus.NOT_FOUND:
        private = "A private model needs a token that may read it." if has_token else f"Is it private? {_LOGIN_HINT}"
        return ModelNotFound(f"{host} has no such model.", f"Check its name. {private}", detail)
    if status == HTTPStatus.UNAUTHORIZED:
        return TokenRefused(
            f"{host} does not accept your token." if has_token else f"{host} asks for a token.", _LOGIN_HINT, detail
        )
    return HubRefused(f"{host} refuses the request ({status}).", f"Try another mirror: {OTHER_ADDRESS}.", detail)


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds; None where the server names none, or names a date."""
    value = headers.get("Retry-After", "").strip()
    return min(float(value), MAX_WAIT_S) if value.isdigit() else None
