"""The table of settings in docs/howto/deploy.md, made by `make docs`.

May live here: its form. May not know: what a setting is for; names, defaults and texts come from the models.
"""

from __future__ import annotations

from .settings_fields import SettingField, fields_of, settings_model

_PARTS = ("control-plane", "worker")


def settings_page() -> str:
    """One Markdown table of the settings a part."""
    return "\n\n".join(f"### `slicelease {part}`\n\n{_table(part)}" for part in _PARTS)


def _table(part: str) -> str:
    head = ["| flag | variable | default | what it says |", "|---|---|---|---|"]
    return "\n".join(head + [_row(field) for field in fields_of(settings_model(part)).values()])


def _row(field: SettingField) -> str:
    default = f"`{field.default}`" if field.default else "none"
    choices = f" One of {', '.join(f'`{choice}`' for choice in field.choices)}." if field.choices else ""
    return f"| `{field.flag}` | `{field.env}` | {default} | {(field.description + choices).replace('|', '/')} |"
