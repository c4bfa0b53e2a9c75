import pytest

from lanescope.errors import InputError
from lanescope.kinds import kind_of
from lanescope.units.values import Duration
from lanescope.units.words import Seconds, duration_text, parse_ns, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("2min", 120),
        ("500ms", 0.5),
        ("1.5 h", 5400),
        ("1e-3s", 0.001),
        ("2E3 ms", 2),
        ("10m", 600),
    ],
)
def test_times(text, seconds):
    assert parse_seconds(text, "--within") == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("100us", 100_000), ("2 ms", 2_000_000), ("1.5µs", 1500), ("2\u03bcs", 2000), ("1s", 10**9)],
)
def test_short_times(text, ns):
    assert parse_ns(text, "--interval") == ns


@pytest.mark.parametrize("micro", ["us", "\u00b5s", "\u03bcs"])
def test_options_take_every_sign_for_micro(micro):
    read = Duration("--host-time", 1, 10**9, "up to a second, or 0", zero=True)
    assert (read(f"13{micro}"), read(f"0 {micro}")) == (13_000, 0)
    assert kind_of(Seconds).take(f"0{micro}") == 0.0


@pytest.mark.parametrize(
    "text", ["", "3", "us", "-1us", "0us", "1 hour", "e3us", "1e-9us", "15S", "nan s"]
)
def test_no_times(text):
    with pytest.raises(InputError, match="--interval"):
        parse_ns(text, "--interval")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.727, "2.73 s"),
        (60, "60 s"),
        (150, "2.5 minutes"),
        (86_400, "24 hours"),
        (7e5, "8.1 days"),
    ],
)
def test_times_in_words(seconds, text):
    assert duration_text(int(seconds * 1e9)) == text
