"""The gateway as a service: HTTP in front of the library, for many tenants at once."""
