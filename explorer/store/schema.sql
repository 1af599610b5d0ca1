-- Times are nanoseconds since 1970. Documents are the bytes that came.
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE nodes (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL UNIQUE,
  farm     INTEGER NOT NULL,
  seen     INTEGER NOT NULL,
  head     INTEGER NOT NULL DEFAULT 0, -- the newest change number
  document BLOB NOT NULL
) STRICT;

CREATE TABLE farms (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  name    TEXT NOT NULL UNIQUE,
  owner   TEXT NOT NULL,
  created INTEGER NOT NULL
) STRICT;

-- The newest time of a signed write by each key: an older one is a replay.
CREATE TABLE writers (
  key  TEXT PRIMARY KEY,
  last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The births of each node's store, in the order in which they were first seen.
CREATE TABLE births (
  node  TEXT NOT NULL,
  birth TEXT NOT NULL,
  place INTEGER NOT NULL,
  PRIMARY KEY (node, birth)
) STRICT, WITHOUT ROWID;

CREATE TABLE reservations (
  n         INTEGER PRIMARY KEY,
  node      TEXT NOT NULL,
  change    INTEGER NOT NULL, -- of the node, at the last push, deletion or renewal
  user      TEXT NOT NULL,
  hash      BLOB NOT NULL UNIQUE,
  created   INTEGER NOT NULL,
  duration  INTEGER NOT NULL,
  expires   INTEGER NOT NULL, -- with the renewal
  to_delete INTEGER NOT NULL DEFAULT 0,
  gone      INTEGER NOT NULL DEFAULT 0, -- the node said so
  state     TEXT NOT NULL DEFAULT '',
  birth     TEXT NOT NULL DEFAULT '',
  sequence  INTEGER NOT NULL DEFAULT 0,
  deletion  BLOB,
  renewal   BLOB,
  result    BLOB,
  body      BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX reservations_change ON reservations (node, change);
CREATE INDEX reservations_node ON reservations (node, n);
CREATE INDEX reservations_user ON reservations (user, n);
