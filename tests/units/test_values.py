"""Values of options with their units, in the forms that people write."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from lanescope.errors import InputError
from lanescope.units.sizes import parse_size
from lanescope.units.values import File, Moment, Real, Scaled, Seconds, Size

GBS = Scaled("--rate", "GB/s", 1e6, "")
OPERATIONS = Scaled("--flops", "FLOP/s", 1e21, "", word="(?:FLOPS?|FLOP/s)?", scale=1.0)


@pytest.mark.parametrize(
    "text", ["4800", "4.8e3", "4800 GB/s", "4800gb/s", "4.8TB/s", "4.8e12B/s", "4800000MB/s"]
)
def test_a_rate_may_have_its_unit(text):
    assert GBS(text) == pytest.approx(4800)
    assert GBS("1GiB/s") == pytest.approx(1.073741824)


def test_seconds_may_have_a_unit_of_time():
    budget = Real("--budget", "seconds", 3600, "an hour")
    assert [budget(text) for text in ("3", "3s", "3000ms", "0.05min")] == [3.0] * 4
    words = r"^--budget takes seconds above 0 and up to 3600 \(an hour\), not "
    for text in ("2h", "0s", "-1s", "3 x", "1e999s", "nan"):
        with pytest.raises(InputError, match=words):
            budget(text)
    with pytest.raises(InputError, match="--rounds takes rounds above 0"):
        Real("--rounds", "rounds", 10, "")("3s")


@pytest.mark.parametrize("text", ["34e12", "34T", "34TFLOPS", "34 TFLOP/s", "34000 gflop"])
def test_operations_may_have_a_prefix(text):
    assert OPERATIONS(text) == pytest.approx(34e12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("400 Gb/s", "bytes a second and no bits, as in 50GB/s, not '400 Gb/s'"),
        ("400Gbit/s", "bytes a second and no bits, as in 50GB/s"),
        ("400Gbps", "bytes a second and no bits, as in 50GB/s"),
        ("8 GB", "takes GB/s above 0"),
        ("2000TB/s", "takes GB/s above 0 and up to 1000000"),
        ("0 GB/s", "takes GB/s above 0"),
        ("nan", "takes GB/s above 0"),
        ("T", "takes GB/s above 0"),
    ],
)
def test_wrong_rates(text, words):
    with pytest.raises(InputError) as caught:
        GBS(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("64k", "64KiB (powers of 1024) or 64KB (of 1000)"),
        ("1.5 G", "1.5GiB (powers of 1024) or 1.5GB (of 1000)"),
        ("64Mi", "64MiB"),
        ("2 Gbit", "2GB"),
    ],
)
def test_a_size_without_its_unit_is_refused_with_what_may_be_meant(text, words):
    for read in (Size("--h2d"), parse_size):
        with pytest.raises(InputError) as caught:
            read(text)
        assert words in str(caught.value)


@pytest.mark.parametrize("text", ["3e-3", "0.003", "5"])
def test_a_time_without_a_unit_is_refused_with_a_hint(text):
    read = Seconds("--kernel", 1, 86_400_000_000_000, "up to a day, or 0", zero=True)
    with pytest.raises(InputError, match=r"up to a day, or 0, with its unit, such as 100us"):
        read(text)
    assert read("3e-3s") == read("3 ms") == pytest.approx(0.003)


@pytest.mark.parametrize(("text", "seconds"), [("1min", 60.0), ("3us", 3e-6), ("700ms", 0.7)])
def test_seconds_are_those_that_were_written_to_the_last_digit(text, seconds):
    assert Seconds("--kernel", 1, 86_400_000_000_000, "up to a day").read(text) == seconds


def test_a_file_in_a_folder_that_is_gone_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(InputError, match=r"no file can be made in '\.'; name another place"):
        File("--json", (".json",)).read("summary.json")


@pytest.fixture
def in_utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_utc")
def test_a_moment_is_a_time_of_day_a_date_or_how_long_ago() -> None:
    when = Moment("--until")
    at = datetime(2026, 11, 28, 3, 20, tzinfo=UTC).timestamp() * 1e9
    for text in ("2026-11-28T03:20", "2026-11-28 03:20:00", "2026-11-28T05:20+02:00"):
        assert when.read(text) == at
    now = time.time_ns()
    assert 0 <= when.read("8h") - (now - 8 * 3600 * 10**9) < 60 * 10**9
    for text in ("00:00", "23:59", "3:20", "03:20:15", "3:20:15"):
        found = when.read(text)
        assert 0 <= time.time_ns() - found < (24 * 3600 + 60) * 10**9
        assert time.strftime("%H:%M:%S", time.gmtime(found // 10**9)).startswith(
            text.rjust(8 if text.count(":") == 2 else 5, "0")
        )
