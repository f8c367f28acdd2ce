"""The tables, as numbered migrations.

A file's version is its `user_version`: how many migrations it has seen. A migration that was released is never changed;
a new one is added behind it.

The search index takes its words from two views, in which `segment` (core/chats/search.py) has separated characters of
scripts without spaces. Answers that are still written are not indexed.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x4D534443  # "MSDC"
_WORDS = "tokenize = \"unicode61 remove_diacritics 2 categories 'L* N* Co So'\", prefix = '1 2'"

Migration = tuple[str, ...]

_FIRST: Migration = (
    """CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL DEFAULT '',
        title_is_automatic INTEGER NOT NULL DEFAULT 1,
        pinned INTEGER NOT NULL DEFAULT 0,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        deleted_ms INTEGER,
        system_prompt TEXT NOT NULL DEFAULT '',
        sampling TEXT NOT NULL DEFAULT '{}',
        pair TEXT NOT NULL DEFAULT '',
        mode TEXT,
        draft TEXT NOT NULL DEFAULT '',
        chosen_root_id INTEGER
    )""",
    "CREATE INDEX chats_listed ON chats (pinned DESC, updated_ms DESC, id DESC) WHERE deleted_ms IS NULL",
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat_id INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        parent_id INTEGER,
        role TEXT NOT NULL,
        state TEXT NOT NULL,
        writer TEXT,
        pair TEXT NOT NULL DEFAULT '',
        created_ms INTEGER NOT NULL,
        chosen_child_id INTEGER,
        attachments TEXT,
        figures TEXT,
        problem TEXT,
        thinking TEXT NOT NULL DEFAULT '',
        content TEXT NOT NULL
    )""",
    "CREATE INDEX messages_by_parent ON messages (chat_id, parent_id)",
    "CREATE INDEX messages_running ON messages (writer) WHERE state = 'running'",
    "CREATE VIEW title_words AS SELECT id, segment(title) AS body FROM chats",
    f"CREATE VIRTUAL TABLE title_index USING fts5 (body, content = 'title_words', content_rowid = 'id', {_WORDS})",
    """CREATE TRIGGER title_added AFTER INSERT ON chats BEGIN
        INSERT INTO title_index (rowid, body) VALUES (new.id, segment(new.title));
    END""",
    """CREATE TRIGGER title_removed AFTER DELETE ON chats BEGIN
        INSERT INTO title_index (title_index, rowid, body) VALUES ('delete', old.id, segment(old.title));
    END""",
    """CREATE TRIGGER title_changed AFTER UPDATE OF title ON chats BEGIN
        INSERT INTO title_index (title_index, rowid, body) VALUES ('delete', old.id, segment(old.title));
        INSERT INTO title_index (rowid, body) VALUES (new.id, segment(new.title));
    END""",
    """CREATE VIEW message_words AS
        SELECT id, segment(content) AS body FROM messages WHERE state <> 'running'""",
    f"CREATE VIRTUAL TABLE message_index USING fts5 (body, content = 'message_words', content_rowid = 'id', {_WORDS})",
    """CREATE TRIGGER message_added AFTER INSERT ON messages WHEN new.state <> 'running' BEGIN
        INSERT INTO message_index (rowid, body) VALUES (new.id, segment(new.content));
    END""",
    """CREATE TRIGGER message_removed AFTER DELETE ON messages WHEN old.state <> 'running' BEGIN
        INSERT INTO message_index (message_index, rowid, body) VALUES ('delete', old.id, segment(old.content));
    END""",
    # One trigger, since the order in which two would fire is not defined.
    """CREATE TRIGGER message_changed AFTER UPDATE OF content, state ON messages BEGIN
        INSERT INTO message_index (message_index, rowid, body)
            SELECT 'delete', old.id, segment(old.content) WHERE old.state <> 'running';
        INSERT INTO message_index (rowid, body) SELECT new.id, segment(new.content) WHERE new.state <> 'running';
    END""",
)

_DRAFT_FILES: Migration = (
    """CREATE TABLE draft_files (
        chat_id INTEGER PRIMARY KEY REFERENCES chats (id) ON DELETE CASCADE,
        files TEXT NOT NULL
    )""",
)

MIGRATIONS: tuple[Migration, ...] = (_FIRST, _DRAFT_FILES)


def version(connection: sqlite3.Connection) -> int:
    """How many migrations the file has seen; 0 for a new one."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest version, all at once or not at all. Raises `sqlite3.Error`."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in MIGRATIONS[version(connection) :]:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
