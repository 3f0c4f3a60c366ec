#!/usr/bin/env bash
# join.sh COORDINATOR WORKER...: the roles of a store on every node of a Citus cluster, then the workers become part of it.
# Roles and databases are made on each node by themselves before they are joined; afterwards Citus passes on what the
# coordinator is told. Needs PGPASSWORD, which becomes the password of both roles.
set -euo pipefail

sql() {
  psql -qAtX -v ON_ERROR_STOP=1 -v password="$PGPASSWORD" -h "$1" -U postgres -d millgate
}

coordinator=$1
shift
for node in "$coordinator" "$@"; do
  sql "$node" <<'END'
SET citus.enable_ddl_propagation = off;
SELECT format('CREATE ROLE gate LOGIN CREATEROLE PASSWORD %L', :'password')
WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'gate') \gexec
ALTER DATABASE millgate OWNER TO gate;
CREATE EXTENSION IF NOT EXISTS citus;
END
done
sql "$coordinator" <<<"SELECT citus_set_coordinator_host('$coordinator', 5432);" >/dev/null
for node in "$@"; do
  sql "$coordinator" <<<"SELECT citus_add_node('$node', 5432);" >/dev/null
done
sql "$coordinator" <<'END'
SELECT format('CREATE ROLE app LOGIN PASSWORD %L', :'password')
WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'app') \gexec
END
