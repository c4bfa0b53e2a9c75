"""What every page has around its sections: head with style and policy, foot, how times are told."""

from __future__ import annotations

from importlib.resources import files

from lanescope.report.html import text

#: The page may use what is inside it and nothing else, and makes no code of text: Vega's own
#: interpreter reads its expressions. Browsers see to that.
_POLICY = (
    "default-src 'none'; {}style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_SCRIPTS = "script-src 'unsafe-inline'; "


def page_frame(
    title: str, body: str, styles: tuple[str, ...] = ("style.css",), *, scripts: bool = True
) -> str:
    """Return a whole page around the HTML of its body.

    Parameters
    ----------
    styles
        Names of style sheets beside this file, which the page takes in.
    scripts
        Whether the page may run what it holds.
    """
    policy = _POLICY.format(_SCRIPTS if scripts else "")
    style = "".join(page_file(name) for name in styles)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{style}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def page_file(name: str) -> str:
    """Return a style sheet or script that lies beside this file."""
    return files("lanescope.report").joinpath(name).read_text(encoding="utf-8")


def page_footer(tool_version: str) -> str:
    """Return the foot of a page."""
    return (
        f"<footer>Made by lanescope {text(tool_version)}; this file holds all of its "
        "data and loads nothing from the network.</footer>"
    )


def time_element(started: str) -> str:
    """Return ISO 8601 as an element that shows it as people read it."""
    return f'<time datetime="{text(started)}">{text(_when(started))}</time>'


def _when(started: str) -> str:
    """ISO 8601 as people read it: a space for the T, no fraction of a second."""
    day, _, clock = started.partition("T")
    time, zone = clock[:8], clock[8:]
    digits = zone.lstrip(".0123456789")
    zone = {"+00:00": "UTC", "Z": "UTC"}.get(digits, digits)
    return f"{day} {time} {zone}".strip()
