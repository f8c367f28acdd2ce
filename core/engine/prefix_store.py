"""Beginnings of conversations that left the session, by their tokens: what two of them share is held once.

A tree. A node stands for the tokens between its parent's and its own end, and holds what the caches have for them;
where a target needs it (`cache_copies.EndState`), also the state at its end. A beginning is found by its exact tokens.
Beyond the limit, what was used longest ago goes first: the last tokens of a conversation before its first ones, and
states alone before tokens that others share.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import psutil

from core.engine.cache_copies import EndState, Rows, rows_nbytes, slice_rows

log = logging.getLogger("mirror_sd.prefix")

SEGMENT_TOKENS = 512
"""Of a node at most: as much is forgotten at once."""
_LONG_AGO = 1 << 40
"""More than anything is ever used."""
_FREE_SHARE = 4
"""No more than one part in so many of the memory that is free when a pair is loaded."""


def limit_bytes(wanted_mb: int) -> int:
    """How much may be held on this machine, once a pair is loaded, where the user allows so much."""
    return min(wanted_mb * 1_000_000, psutil.virtual_memory().available // _FREE_SHARE)


@dataclass(frozen=True)
class Found:
    """A known beginning."""

    length: int
    segments: tuple[Rows, ...]
    """Of its tokens, in order."""
    end: EndState | None


@dataclass(eq=False)
class _Node:
    tokens: tuple[int, ...]
    rows: Rows
    parent: _Node | None
    children: dict[int, _Node] = field(default_factory=dict)
    """By their first token."""
    end: EndState | None = None
    used: int = 0
    end_used: int = 0


@dataclass(frozen=True)
class _Walk:
    """How far tokens lead down the tree."""

    path: list[_Node]
    """From below the root on, each wholly known."""
    length: int
    """Tokens of `path`."""
    partly: _Node | None = None
    """The node below that is known in part."""
    inside: int = 0
    """Tokens known of it."""


class PrefixStore:
    """Holds at most `limit_bytes` of arrays. Everything runs on the thread that owns MLX."""

    def __init__(self, limit_bytes: int, needs_ends: bool) -> None:
        """`needs_ends`: tokens can be gone back to only where the state at their end is known."""
        self.limit_bytes = limit_bytes
        self.nbytes = 0
        self._needs_ends = needs_ends
        self._root = _Node((), (), None)
        self._now = 0

    def find(self, tokens: Sequence[int]) -> Found:
        """The longest known beginning of `tokens`; it may be of no length."""
        walk = self._walk(tokens)
        self._touch(walk.path)
        if self._needs_ends:
            return self._find_end(walk)
        segments, length = [node.rows for node in walk.path], walk.length
        if walk.partly is not None:
            walk.partly.used = self._now
            segments.append(_first_rows(walk.partly.rows, walk.inside))
            length += walk.inside
        return Found(length, tuple(segments), None)

    def insert(
        self,
        tokens: Sequence[int],
        copy_rows: Callable[[int, int], Rows],
        copy_end: Callable[[], EndState] | None,
        spare: bool = False,
    ) -> None:
        """Hold `tokens`, as far as there is room, and the state at their end where `copy_end` is given.

        What is not held yet is asked for: `copy_rows` copies the rows of positions. `spare`: it takes no one's place,
        and is the first to make room for others.
        """
        walk = self._walk(tokens)
        self._touch(walk.path)
        used = self._now - _LONG_AGO if spare else self._now
        node, at = (walk.path[-1] if walk.path else self._root), walk.length
        if walk.partly is not None:
            at += walk.inside
            walk.partly.used = self._now
            if at == len(tokens) and copy_end is None:
                return
            node = self._split(walk.partly, walk.inside)
        while at < len(tokens):
            end = min(at + SEGMENT_TOKENS, len(tokens))
            child = _Node(tuple(tokens[at:end]), copy_rows(at, end), node, used=used)
            node.children[tokens[at]] = child
            self.nbytes += rows_nbytes(child.rows)
            if not self._make_room(used):
                self._remove(child)
                break
            node, at = child, end
        if at == len(tokens) and copy_end is not None and node is not self._root:
            self._hold_end(node, copy_end, used)
        self._prune(node)

    def _walk(self, tokens: Sequence[int]) -> _Walk:
        node, at = self._root, 0
        path: list[_Node] = []
        while at < len(tokens) and (child := node.children.get(tokens[at])) is not None:
            pairs = zip(child.tokens, tokens[at : at + len(child.tokens)], strict=False)
            known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if known < len(child.tokens):
                return _Walk(path, at, child, known)
            path.append(child)
            node, at = child, at + known
        return _Walk(path, at)

    def _touch(self, path: Sequence[_Node]) -> None:
        self._now += 1
        for node in path:
            node.used = self._now

    def _find_end(self, walk: _Walk) -> Found:
        path, length = list(walk.path), walk.length
        while path and path[-1].end is None:
            length -= len(path.pop().tokens)
        if not path:
            return Found(0, (), None)
        path[-1].end_used = self._now
        return Found(length, tuple(node.rows for node in path), path[-1].end)

    def _split(self, node: _Node, at: int) -> _Node:
        """Let a node end after `at` of its tokens, and one below it hold the others. Returns the upper one."""
        assert node.parent is not None
        upper = _Node(node.tokens[:at], slice_rows(node.rows, 0, at), node.parent, used=self._now)
        node.parent.children[upper.tokens[0]] = upper
        upper.children[node.tokens[at]] = node
        node.rows = slice_rows(node.rows, at, len(node.tokens))
        node.tokens, node.parent = node.tokens[at:], upper
        return upper

    def _hold_end(self, node: _Node, copy_end: Callable[[], EndState], used: int) -> None:
        if node.end is None:
            node.end, node.end_used = copy_end(), used
            self.nbytes += node.end.nbytes
            if not self._make_room(used):
                self._drop_end(node)
        node.end_used = max(node.end_used, used)

    def _make_room(self, used: int) -> bool:
        """Forget what was used longest ago, and before `used`, until the limit holds. Returns whether it does."""
        while self.nbytes > self.limit_bytes:
            leaves = [node for node in self._nodes() if not node.children and node.used < used]
            ends = [node for node in self._nodes() if node.children and node.end and node.end_used < used]
            if not leaves and not ends:
                return False
            if not ends or (leaves and min(leaf.used for leaf in leaves) <= min(node.end_used for node in ends)):
                leaf = min(leaves, key=lambda leaf: leaf.used)
                self._remove(leaf)
                assert leaf.parent is not None
                self._prune(leaf.parent)
            else:
                self._drop_end(min(ends, key=lambda node: node.end_used))
        return True

    def _prune(self, node: _Node) -> None:
        """Remove what cannot be gone back to: nodes from `node` upwards that nothing below makes use of."""
        while self._needs_ends and node.parent is not None and not node.children and node.end is None:
            self._remove(node)
            node = node.parent

    def _remove(self, leaf: _Node) -> None:
        assert leaf.parent is not None
        del leaf.parent.children[leaf.tokens[0]]
        self.nbytes -= rows_nbytes(leaf.rows)
        self._drop_end(leaf)

    def _drop_end(self, node: _Node) -> None:
        if node.end is not None:
            self.nbytes -= node.end.nbytes
            node.end = None

    def _nodes(self) -> Iterator[_Node]:
        waiting = [*self._root.children.values()]
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            yield node


def _first_rows(rows: Rows, count: int) -> Rows:
    """Lazily."""
    return tuple(tuple(array[..., :count, :] for array in arrays) for arrays in rows)
