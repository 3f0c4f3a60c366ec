"""URL: whether the setting `store` names a PostgreSQL database, and what may be shown of it."""

SCHEMES = ("postgresql://", "postgres://")


def is_postgres(store: str) -> bool:
    """Whether a setting `store` names a PostgreSQL database."""
    return store.startswith(SCHEMES)


def hide_password(store: str) -> str:
    """A setting `store` as it may be shown."""
    if not is_postgres(store):
        return store
    scheme, _, rest = store.partition("://")
    # up to the last @, since a password may hold one that was not encoded
    login, at, place = rest.partition("?")[0].rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}{at}{place}"
