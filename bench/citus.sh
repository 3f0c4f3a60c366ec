#!/usr/bin/env bash
# A Citus cluster on loopback, to measure and test against: a coordinator and two workers.
#
#   bench/citus.sh build     copies Debian's PostgreSQL into the folder, builds Citus there: 7 minutes
#   bench/citus.sh start     starts the nodes, makes the database and its two roles, and prints the addresses
#   bench/citus.sh grow      starts one more worker and adds it, empty, to the cluster
#   bench/citus.sh node N start|stop|kill     one node: 0 is the coordinator
#   bench/citus.sh sql NODE STATEMENT         as superuser
#   bench/citus.sh addresses                  prints the addresses again
#   bench/citus.sh stop      stops all nodes; the folder stays, `rm -r` deletes it
#
# Needed: apt-get install git build-essential postgresql postgresql-server-dev-15 liblz4-dev libzstd-dev libssl-dev \
#                         libkrb5-dev libicu-dev libxml2-dev
# FOLDER, PORT (of the coordinator; workers follow), SHARDS, CITUS_SOURCE (any git address) may be set. Nothing outside FOLDER is written. PostgreSQL refuses to run as root: then it runs as nobody.
set -euo pipefail

FOLDER=${FOLDER:-/tmp/millgate-citus}
PORT=${PORT:-25500}
SHARDS=${SHARDS:-32}
CITUS_SOURCE=${CITUS_SOURCE:-https://github.com/citusdata/citus}
CITUS=v13.2.2

VERSION=${VERSION:-$(basename "$(ls -d /usr/lib/postgresql/1[567]/lib/pgxs 2>/dev/null | tail -1 | sed 's|/lib/pgxs||')")}
ROOT=$FOLDER/root
BIN=$ROOT/usr/lib/postgresql/$VERSION/bin

as_server() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$FOLDER" PGPASSFILE="$FOLDER/passwords" "$@"
  else
    env PGPASSFILE="$FOLDER/passwords" "$@"
  fi
}

build() {
  [ -n "$VERSION" ] || { echo "the headers of PostgreSQL 15, 16 or 17 are missing: see the top of $0" >&2; exit 1; }
  local config=/usr/lib/postgresql/$VERSION/bin/pg_config
  # PostgreSQL finds its files beside its programs, so a copy takes extensions that the installed one does not see
  mkdir -p "$ROOT/usr/lib/postgresql" "$ROOT/usr/share/postgresql"
  cp -a "/usr/lib/postgresql/$VERSION" "$ROOT/usr/lib/postgresql/"
  cp -a "/usr/share/postgresql/$VERSION" "$ROOT/usr/share/postgresql/"
  cd "$FOLDER"
  [ -d citus ] || git clone --quiet --branch "$CITUS" "$CITUS_SOURCE" citus
  if [ "$VERSION" = 15 ]; then  # 15.20 has a function that Citus defines itself for 15
    sed -i 's/\bhave_createdb_privilege\b/citus_have_createdb_privilege/' citus/src/include/pg_version_compat.h \
      citus/src/backend/distributed/commands/serialize_distributed_ddls.c
  fi
  (cd citus && ./configure PG_CONFIG="$config" --without-libcurl)
  make -C citus with_llvm=no
  make -C citus install DESTDIR="$ROOT" with_llvm=no
}

node() {
  local number=$1 data=$FOLDER/node$1
  case $2 in
  start)
    if [ ! -d "$data" ]; then
      as_server "$BIN/initdb" --no-sync -U postgres -E UTF8 --locale=C.UTF-8 --auth=scram-sha-256 \
        --pwfile="$FOLDER/password" -D "$data" >>"$FOLDER/log"
      # wal_level: shards move by logical replication; prepared transactions: a write over several workers
      as_server tee -a "$data/postgresql.conf" >/dev/null <<END
shared_preload_libraries = 'citus'
port = $((PORT + number))
listen_addresses = '127.0.0.1'
citus.local_hostname = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
max_prepared_transactions = 200
wal_level = logical
shared_buffers = 128MB
citus.shard_count = $SHARDS
citus.node_conninfo = 'sslmode=prefer connect_timeout=2'
citus.node_connection_timeout = 2000
END
    fi
    as_server "$BIN/pg_ctl" -w -s -D "$data" -l "$data.log" start ;;
  stop) as_server "$BIN/pg_ctl" -w -s -D "$data" -m fast stop ;;
  kill) kill -9 "$(head -1 "$data/postmaster.pid")" ;;
  esac
}

# the superuser's statements on one node, in the database of the store unless another is named
sql() {
  as_server "$BIN/psql" -qAtX -v ON_ERROR_STOP=1 \
    "postgresql://postgres@127.0.0.1:$((PORT + $1))/${DATABASE:-millgate}" -c "$2"
}

# The database is made on each node by itself: Citus passes on what happens inside of it.
prepare() {
  DATABASE=postgres sql "$1" "SET citus.enable_ddl_propagation = off; CREATE ROLE gate LOGIN CREATEROLE PASSWORD '$(cat "$FOLDER/password")'"
  DATABASE=postgres sql "$1" "CREATE DATABASE millgate OWNER gate"
  sql "$1" "CREATE EXTENSION citus"
}

start() {
  mkdir -p "$FOLDER"
  if [ ! -f "$FOLDER/password" ]; then
    head -c 18 /dev/urandom | base64 | tr '/+' 'ab' >"$FOLDER/password"
    echo "*:*:*:*:$(cat "$FOLDER/password")" >"$FOLDER/passwords"
    chmod 600 "$FOLDER/password" "$FOLDER/passwords"
    if [ "$(id -u)" = 0 ]; then chown nobody:nogroup "$FOLDER" "$FOLDER/password" "$FOLDER/passwords"; fi
  fi
  local fresh=1 n
  [ ! -d "$FOLDER/node0" ] || fresh=
  for n in 0 1 2; do node $n start; done
  if [ -n "$fresh" ]; then
    # the role and the database on every node, before the workers are added
    for n in 0 1 2; do prepare $n; done
    sql 0 "SELECT citus_set_coordinator_host('127.0.0.1', $PORT)" >/dev/null
    for n in 1 2; do sql 0 "SELECT citus_add_node('127.0.0.1', $((PORT + n)))" >/dev/null; done
    sql 0 "CREATE ROLE app LOGIN PASSWORD '$(cat "$FOLDER/password")'"
  fi
  addresses
}

grow() {
  local n=1
  while [ -d "$FOLDER/node$n" ]; do n=$((n + 1)); done
  node $n start
  prepare $n
  sql 0 "SELECT citus_add_node('127.0.0.1', $((PORT + n)))" >/dev/null
  echo "worker $n is part of the cluster; SELECT citus_rebalance_start() moves shards to it"
}

addresses() {
  local password
  password=$(cat "$FOLDER/password")
  echo "export OWNER=postgresql://gate:$password@127.0.0.1:$PORT/millgate       # millgate store migrate --role app, distribute"
  echo "export MILLGATE_STORE=postgresql://app:$password@127.0.0.1:$PORT/millgate     # gateways"
}

stop() {
  local data
  for data in "$FOLDER"/node[0-9]*/; do
    if [ -f "$data/postmaster.pid" ]; then as_server "$BIN/pg_ctl" -w -s -D "$data" -m fast stop || true; fi
  done
}

case ${1:-} in
build | start | grow | stop | addresses) "$1" ;;
node) node "$2" "$3" ;;
sql) sql "$2" "$3" ;;
*) sed -n '2,15s/^# \{0,1\}//p' "$0" ;;
esac
