"""The tables of impressions and events, and the migrations: numbered steps that run once each."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from interleaf.errors import DataError
from interleaf.store.database import Database, SqlTable, Transaction
from interleaf.store.experiments import index_experiments

# `sought` is 1 if the impression is found by its unit: for events that name only their unit, or to join searches.
IMPRESSIONS = SqlTable(
    "impressions",
    "id text, experiment text, version integer, unit text, time bigint, until bigint, closes bigint, sought integer, "
    "design text, numbers bytea, body bytea",
    ("id",),
)
# `place` is the index among the impressions of the event. `target` is the impression or unit that the event names:
# event ids are unique within it.
EVENTS = SqlTable(
    "events",
    "id text, impression text, place integer, kind text, rank integer, time bigint, received bigint, "
    "dwell double precision, value double precision, target text",
    ("id", "impression"),
)
# `scope` is the only experiment that the event may belong to.
APART = SqlTable(
    "apart",
    "id text, reason text, experiment text, version integer, kind text, received bigint, time bigint, impression text, "
    "unit text, rank bigint, document text, dwell double precision, value double precision, scope text, target text",
    ("id", "target"),
)

# The names of experiments with open impressions; a loose index scan instead of a scan of all experiments.
OPEN_NAMES = (
    "WITH RECURSIVE names(name) AS (SELECT min(experiment) FROM impressions WHERE folded = 0 UNION ALL "
    "SELECT (SELECT min(i.experiment) FROM impressions i WHERE i.folded = 0 AND i.experiment > names.name) FROM names "
    "WHERE names.name IS NOT NULL)"
)

# Migrations from an empty database on. A released step is never changed; new steps are added at the end.
STEPS: tuple[str | Callable[[Transaction], None], ...] = (
    """
    CREATE TABLE experiments (
        name text PRIMARY KEY, version integer NOT NULL, state text NOT NULL,
        created bigint NOT NULL, started bigint, stopped bigint
    );
    CREATE TABLE versions (
        experiment text NOT NULL, version integer NOT NULL, settings text NOT NULL, PRIMARY KEY (experiment, version)
    );
    CREATE TABLE history (
        number {number}, experiment text NOT NULL, time bigint NOT NULL, version integer NOT NULL,
        what text NOT NULL, who text NOT NULL, note text NOT NULL
    );
    CREATE INDEX history_of ON history (experiment, number);
    CREATE TABLE impressions (
        number {number}, id text NOT NULL UNIQUE, experiment text NOT NULL, version integer NOT NULL, unit text,
        time bigint NOT NULL, until bigint NOT NULL, closes bigint NOT NULL, sought integer NOT NULL,
        folded integer NOT NULL DEFAULT 0, design text NOT NULL, numbers {bytes} NOT NULL, body {bytes} NOT NULL
    );
    CREATE INDEX impressions_of ON impressions (experiment, version, number);
    CREATE INDEX impressions_open ON impressions (experiment, version, closes) WHERE folded = 0;
    CREATE INDEX impressions_sought ON impressions (unit, number) WHERE folded = 0 AND sought = 1;
    CREATE INDEX impressions_by_unit ON impressions (unit, number) WHERE folded = 1;
    CREATE TABLE events (
        id text NOT NULL, impression text NOT NULL, place integer NOT NULL, kind text NOT NULL, rank integer NOT NULL,
        time bigint NOT NULL, received bigint NOT NULL, dwell {real}, value {real}, PRIMARY KEY (impression, id)
    ) {keyed};
    CREATE UNIQUE INDEX events_by_id ON events (id, place);
    CREATE TABLE apart (
        id text PRIMARY KEY, reason text NOT NULL, experiment text, version integer, kind text NOT NULL,
        received bigint NOT NULL, time bigint NOT NULL, impression text, unit text, rank bigint, document text,
        dwell {real}, value {real}
    );
    CREATE INDEX apart_of ON apart (experiment, version, reason);
    CREATE INDEX apart_of_impression ON apart (impression) WHERE impression IS NOT NULL;
    CREATE INDEX apart_of_unit ON apart (unit, time);
    CREATE INDEX apart_received ON apart (received);
    CREATE TABLE sums (
        number {number}, experiment text NOT NULL, version integer NOT NULL, metric text NOT NULL,
        impressions bigint NOT NULL, data {bytes} NOT NULL
    );
    CREATE INDEX sums_of ON sums (experiment, version, metric, number);
    CREATE TABLE access_keys (
        id text PRIMARY KEY, hash {bytes} NOT NULL UNIQUE, role text NOT NULL, label text NOT NULL,
        created bigint NOT NULL, revoked bigint
    );
    CREATE TABLE secrets (name text PRIMARY KEY, secret {bytes} NOT NULL);
    CREATE TABLE pulse (one integer PRIMARY KEY, beats bigint NOT NULL);
    INSERT INTO pulse (one, beats) VALUES (1, 0)
    """,
    """
    DROP TABLE pulse;
    CREATE TABLE unit_secrets (number {number}, since bigint NOT NULL, salt {bytes} NOT NULL, fingerprint {bytes});
    CREATE TABLE clock (one integer PRIMARY KEY, time bigint NOT NULL, doubted bigint)
    """,
    """
    CREATE TABLE sessions (
        hash {bytes} PRIMARY KEY, access_key text NOT NULL, created bigint NOT NULL, expires bigint NOT NULL,
        used bigint NOT NULL
    );
    CREATE INDEX sessions_of ON sessions (access_key);
    ALTER TABLE secrets ADD COLUMN expires bigint
    """,
    """
    ALTER TABLE access_keys ADD COLUMN experiment text;
    ALTER TABLE access_keys ADD COLUMN expires bigint;
    ALTER TABLE access_keys ADD COLUMN used bigint;
    ALTER TABLE apart ADD COLUMN scope text
    """,
    """
    ALTER TABLE experiments ADD COLUMN archived bigint;
    ALTER TABLE experiments ADD COLUMN words text NOT NULL DEFAULT '';
    UPDATE experiments SET words = lower(name);
    CREATE INDEX experiments_listed ON experiments (
        (CASE state WHEN 'running' THEN 0 WHEN 'draft' THEN 1 ELSE 2 END), created DESC, name, state, archived
    ) WHERE archived IS NULL;
    CREATE INDEX experiments_in_state ON experiments (state);
    CREATE TABLE deleted_experiments (
        name text PRIMARY KEY, version integer NOT NULL, deleted bigint NOT NULL, is_done integer NOT NULL
    );
    CREATE INDEX deleted_experiments_left ON deleted_experiments (is_done) WHERE is_done = 0
    """,
    """
    ALTER TABLE events ADD COLUMN target text NOT NULL DEFAULT '';
    UPDATE events SET target = impression;
    DROP INDEX events_by_id;
    CREATE UNIQUE INDEX events_by_id ON events (id, target, place);
    ALTER TABLE apart RENAME TO apart_before;
    DROP INDEX apart_of;
    DROP INDEX apart_of_impression;
    DROP INDEX apart_of_unit;
    DROP INDEX apart_received;
    CREATE TABLE apart (
        number {number}, id text NOT NULL, reason text NOT NULL, experiment text, version integer, kind text NOT NULL,
        received bigint NOT NULL, time bigint NOT NULL, impression text, unit text, rank bigint, document text,
        dwell {real}, value {real}, scope text, target text NOT NULL
    );
    INSERT INTO apart (id, reason, experiment, version, kind, received, time, impression, unit, rank, document, dwell,
        value, scope, target)
        SELECT id, reason, experiment, version, kind, received, time, impression, unit, rank, document, dwell, value,
        scope, coalesce(impression, unit, '') FROM apart_before;
    DROP TABLE apart_before;
    CREATE UNIQUE INDEX apart_by_id ON apart (id, target);
    CREATE INDEX apart_of ON apart (experiment, version, reason);
    CREATE INDEX apart_of_impression ON apart (impression) WHERE impression IS NOT NULL;
    CREATE INDEX apart_of_unit ON apart (unit, time);
    CREATE INDEX apart_received ON apart (received)
    """,
    """
    ALTER TABLE clock ADD COLUMN since bigint;
    UPDATE clock SET since = time WHERE doubted IS NOT NULL
    """,
    """
    CREATE TABLE query_storage (one integer PRIMARY KEY, queries text NOT NULL, since bigint NOT NULL)
    """,
    # The column `words` of experiments is not used from here on.
    """
    CREATE TABLE experiment_words (
        experiment text NOT NULL, word text {by_code} NOT NULL, PRIMARY KEY (experiment, word)
    ) {keyed};
    CREATE INDEX experiment_words_by_word ON experiment_words (word, experiment);
    CREATE INDEX experiments_archived ON experiments (
        (CASE state WHEN 'running' THEN 0 WHEN 'draft' THEN 1 ELSE 2 END), created DESC, name
    ) WHERE archived IS NOT NULL;
    CREATE INDEX experiments_of_state ON experiments (state, created DESC, name) WHERE archived IS NULL;
    CREATE INDEX experiments_archived_of_state ON experiments (state, created DESC, name) WHERE archived IS NOT NULL
    """,
    index_experiments,
    # Before this step, outcomes of events were texts; from here on they are codes.
    """
    UPDATE apart SET reason = CASE reason
        WHEN 'unknown impression' THEN 'unknown_impression' WHEN 'rank not shown' THEN 'rank_not_shown'
        WHEN 'document not shown' THEN 'document_not_shown' WHEN 'a fixed slot' THEN 'fixed_slot'
        WHEN 'after the window' THEN 'late' WHEN 'before its impression' THEN 'early'
        WHEN 'from the future' THEN 'future' WHEN 'arrived after folding' THEN 'folded'
        WHEN 'no impression that takes events by unit showed it' THEN 'not_shown_to_unit' ELSE reason END
    """,
    """
    CREATE TABLE watched (
        experiment text PRIMARY KEY, looked bigint NOT NULL, revision bigint NOT NULL, state text NOT NULL
    );
    CREATE TABLE webhooks (
        id text NOT NULL, url text NOT NULL, experiment text NOT NULL, version integer NOT NULL, kind text NOT NULL,
        body text NOT NULL, due bigint NOT NULL, tries integer NOT NULL, PRIMARY KEY (id, url)
    );
    CREATE INDEX webhooks_due ON webhooks (due);
    CREATE INDEX webhooks_of ON webhooks (experiment)
    """,
    """
    CREATE TABLE epoch_plans (
        experiment text NOT NULL, version integer NOT NULL, epoch bigint NOT NULL, plan text NOT NULL,
        PRIMARY KEY (experiment, version, epoch)
    )
    """,
    # Before this step, the code of a verdict was noted; from here on also its other codes and the winner.
    "UPDATE watched SET state = '{{}}'",
)


def upgrade(database: Database) -> None:
    """Run the migrations that this database lacks; refuse a database of a newer release."""
    with database.upgrading() as transaction:
        transaction.alone()
        transaction.change("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
        rows = transaction.rows("SELECT version FROM schema_version")
        done = rows[0][0] if rows else 0
        if done > len(STEPS):
            problem = f"the store is of version {done}, and this interleaf knows versions up to {len(STEPS)}"
            raise DataError(f"{problem}: a newer interleaf wrote it; upgrade this one")
        for step in STEPS[done:]:
            if callable(step):
                step(transaction)
                continue
            for statement in step.format_map(database.words).split(";"):
                transaction.change(statement)
        if not rows:
            transaction.change("INSERT INTO secrets (name, secret) VALUES ('signing', ?)", secrets.token_bytes(32))
            transaction.change("INSERT INTO schema_version (version) VALUES (?)", len(STEPS))
        elif done < len(STEPS):
            transaction.change("UPDATE schema_version SET version = ?", len(STEPS))
