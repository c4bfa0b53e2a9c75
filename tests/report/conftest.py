from __future__ import annotations

from html.parser import HTMLParser

import pytest

from lanescope.store.run import Run
from tests.report import factory

_VOID = {"meta", "link", "br", "img", "input", "hr"}


class Document(HTMLParser):
    """Parses HTML, insists on balanced tags, and keeps what tests ask for."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif not self.open or self.open[-1] != "style":
            self.words.append(data)


RUNS = {
    "check": factory.check_run,
    "slow": lambda: factory.check_run(slow="g0"),
    "missing": lambda: factory.check_run(missing="g1"),
    "sweep": factory.sweep_run,
    "predicted": factory.predicted_run,
    "predicted sweep": lambda: factory.predicted_run("sweep"),
    "bench": lambda: factory.bench_run(slow="g0"),
    "predicted bench": lambda: factory.predicted_run("bench"),
    "nasty": factory.nasty_run,
    "no GPU": lambda: factory.check_run(factory.host_only()),
    "eight GPUs": lambda: factory.check_run(factory.eight_gpus(), missing="g6"),
    "empty": lambda: factory.run_of([], factory.two_gpus()),
}


@pytest.fixture(params=list(RUNS))
def any_run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]()
