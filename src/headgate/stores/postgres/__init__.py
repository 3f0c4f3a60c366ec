"""The PostgreSQL store: many gateways over one database."""
