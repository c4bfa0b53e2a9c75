"""What blocks look like on a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console

from lanescope.document.blocks import Block
from lanescope.report.terminal import renderables


def printed(blocks: Sequence[Block], width: int = 200) -> str:
    """Return what a terminal of a width shows, each sentence in a line."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    for part in renderables(blocks):
        console.print(part, soft_wrap=True)
    return console.file.getvalue()
