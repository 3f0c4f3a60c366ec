"""Operations on a store folder: back up, restore, export, import, check, compact, and ask what is wrong."""
