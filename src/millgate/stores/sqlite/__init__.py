"""Internal: the store in one SQLite file, the default. Start with store.py, then sql/documents.py.

connection.py alone opens connections and spells statements, migrations.py alone knows the schema's history.
upkeep.py is what the commands that look after a whole store use.
"""
