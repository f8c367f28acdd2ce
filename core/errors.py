"""The errors a user can meet: one type per cause, each with a sentence, a hint and detail for the log.

`Problem` is the data of such an error: it crosses the process border and reaches the window.
"""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, for the user and for the log."""

    kind: str
    """The name of the error's type, for example `TruncatedFile`."""
    sentence: str
    """One sentence for the user."""
    hint: str = ""
    """What the user can do."""
    detail: str = ""
    """For the log: paths, numbers, a traceback."""


class MirrorError(Exception):
    """The base of all errors that are shown to the user. Subclasses name one cause each."""

    def __init__(self, sentence: str, hint: str = "", detail: str = "") -> None:
        super().__init__(sentence)
        self.problem = Problem(type(self).__name__, sentence, hint, detail)


class MissingFile(MirrorError):
    """A file or folder that was named does not exist."""


class UnreadableModel(MirrorError):
    """A model file is cut off, damaged, or not what its name says."""


class UnsupportedModel(MirrorError):
    """The model is sound but of a kind that this program cannot run."""


class PairMismatch(MirrorError):
    """The draft was made for another target."""


class BadCatalog(MirrorError):
    """A catalog of pairs cannot be read, or is older than the built-in one."""


class NotOnThisMachine(MirrorError):
    """A model that was named is neither a path, nor in the catalog, nor in a folder that is searched."""


class DemoTargetMissing(MirrorError):
    """The package that carries the demo target is not installed."""


class UnknownPair(MirrorError):
    """No pair has the name that was given."""


class UnreadablePrompts(MirrorError):
    """A file of prompts is empty, too large, or not what its name says."""


class UselessConversations(MirrorError):
    """A target's conversations with itself are too short, or go in circles: no draft can be trained on them."""


class UnsupportedCache(MirrorError):
    """The target keeps a cache that cannot be rolled back yet."""


class DraftStopped(MirrorError):
    """A draft's program has not ended in time."""


class BadRequest(MirrorError):
    """A request names an impossible value."""


class PromptTooLong(MirrorError):
    """The conversation does not fit into the target's context."""


class KernelsNotWritten(MirrorError):
    """The disk did not take prepared kernels."""


class CorruptKernels(MirrorError):
    """Prepared kernels on the disk are damaged or cannot be read."""


class ChatsNotWritten(MirrorError):
    """The disk did not take the chats, for another reason than those below."""


class ChatsDiskFull(MirrorError):
    """There is no room left for the chats."""


class ChatsReadOnly(MirrorError):
    """The chats' file or folder may not be written."""


class ChatsBusy(MirrorError):
    """Another program held the chats' file for too long."""


class ChatsTooNew(MirrorError):
    """A newer version of this program wrote the chats' file."""


class CorruptChats(MirrorError):
    """The chats' file is damaged, or is not one."""


class MissingChat(MirrorError):
    """A chat that was named does not exist any more."""


class MissingMessage(MirrorError):
    """A message that was named does not exist any more."""


class UnreadableImport(MirrorError):
    """A file that was to be imported holds no chats that this program understands."""


class UnreadableAttachment(MirrorError):
    """A file that was to be attached is no text, or too long."""


class SettingsNotSaved(MirrorError):
    """The disk did not take the settings."""


class TokenNotSaved(MirrorError):
    """The disk or the keyring did not take the hub's token, or did not let go of it."""


class TraceNotWritten(MirrorError):
    """The disk did not take the trace of an answer."""


class EngineBusy(MirrorError):
    """Another window or terminal holds the engine."""


class EngineTaken(MirrorError):
    """Something else in this window uses the engine."""


class NothingLoaded(MirrorError):
    """There is no pair to do this with."""


class WorkerStartFailed(MirrorError):
    """The engine process could not be started."""


class WorkerDied(MirrorError):
    """The engine process ended while it was needed."""


class ProtocolError(MirrorError):
    """Bytes on the pipe between window and engine were not a message."""


class BadHubSetting(MirrorError):
    """The hub's address or the proxy cannot be used as written."""


class HubOffline(MirrorError):
    """Something is needed from the hub while offline mode is on."""


class HubUnreachable(MirrorError):
    """No connection to the hub, its content server or the proxy."""


class HubUntrusted(MirrorError):
    """The server's certificate is not valid, or a redirect leaves the encrypted connection."""


class ConnectionLost(MirrorError):
    """The server ended the connection in the middle of an answer."""


class TransferStalled(MirrorError):
    """The connection stands, but no bytes come."""


class HubBusy(MirrorError):
    """The hub asks to slow down."""


class HubFault(MirrorError):
    """The hub has a fault of its own."""


class HubRefused(MirrorError):
    """The hub does not allow this request, for none of the reasons that have a type of their own."""


class LinkExpired(MirrorError):
    """The content server does not accept the link that the hub gave."""


class UnreadableAnswer(MirrorError):
    """What answered does not speak as a hub does: a login page of a network, or a broken mirror."""


class ModelNotFound(MirrorError):
    """The hub has no such model, or it is private."""


class RevisionNotFound(MirrorError):
    """The model has no such branch, tag or commit."""


class FileNotOnHub(MirrorError):
    """The model has no such file."""


class GatedModel(MirrorError):
    """The model's owner gives access only to users who ask for it."""


class TokenRefused(MirrorError):
    """The hub does not accept the token."""


class NothingToDownload(MirrorError):
    """None of the model's files is one that was asked for."""


class DiskFull(MirrorError):
    """The disk has no room for what is to be downloaded."""


class CacheNotWritable(MirrorError):
    """The folder of models does not take files."""


class WrongLength(MirrorError):
    """A server's file is not as long as the hub lists it."""


class WrongContent(MirrorError):
    """The hub holds another file than the one that is known, by its hash."""


class ChecksumFailed(MirrorError):
    """A downloaded file is not the one that the hub lists."""


class ModelBusy(MirrorError):
    """A model is being downloaded while it is to be removed."""


class NotRemoved(MirrorError):
    """The disk did not let go of a model's files."""


class Cancelled(MirrorError):
    """The user stopped the request before it had a result."""


class InternalError(MirrorError):
    """A defect of this program: an exception that nobody foresaw."""
