import io
import os

from rich.text import Text

from lanescope.cli import live as terminal
from lanescope.cli.live import Redrawn


class Screen(io.StringIO):
    """A terminal of few columns and lines."""

    def fileno(self):
        return -1


def drawn(monkeypatch, *texts, columns=10, lines=4):
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, lines)))
    screen = Screen()
    with Redrawn(screen) as view:
        screen.truncate(0)
        screen.seek(0)
        for told in texts:
            view.draw(told)
        return screen.getvalue()


def styled():
    told = Text()
    told.append("head\n", style="bold")
    told.append("row ")
    told.append("bars and more", style="cyan")
    return told


def test_lines_have_their_styles_and_are_cut_to_the_width(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = drawn(monkeypatch, styled())
    assert shown == "\r\x1b[1mhead\x1b[0m\x1b[K\nrow \x1b[36mbars …\x1b[0m\x1b[K\n\x1b[J"


def test_without_colours_there_is_plain_text(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn(monkeypatch, styled()) == "\rhead\x1b[K\nrow bars …\x1b[K\n\x1b[J"


def test_control_characters_of_names_do_not_act(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    shown = drawn(monkeypatch, Text("a\x1b[2J\x9bb\tc"))
    assert shown == "\ra?[2J?b?c\x1b[K\n\x1b[J"


def test_the_next_text_is_drawn_over_the_one_before(monkeypatch):
    shown = drawn(monkeypatch, Text("a\nb\nc\nd\ne"), Text("f"))
    first, second = shown.split("\x1b[J")[:2]
    assert first.count("\n") == 3  # a line less than there are
    assert second.startswith("\r\x1b[3A")
    assert second.endswith("f\x1b[K\n")


def test_a_terminal_that_tells_no_size_has_the_usual_one(monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    assert terminal.Redrawn(Screen()).columns == 80
