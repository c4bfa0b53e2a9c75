import doctest

import pytest

from lanescope.errors import InputError
from lanescope.units import sizes
from lanescope.units.sizes import is_decimal, parse_size, rising_sizes, size_text
from lanescope.units.values import Size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16", 16),
        ("16B", 16),
        ("200KB", 200_000),
        ("64KiB", 65536),
        ("2gib", 2 << 30),
        ("1.5KiB", 1536),
        ("2e9", 2_000_000_000),
        ("1.5E3 MB", 1_500_000_000),
        ("1e-3GB", 1_000_000),
        ("1PiB", 1 << 50),
        ("2pb", 2 * 10**15),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


def test_the_largest_size_that_options_name_is_taken():
    read = Size("--h2d", zero=True)
    assert (read("1PiB"), read("0 PB")) == (1 << 50, 0)
    with pytest.raises(InputError, match=r"from 1 B to 1 PiB, .* not '2PB'"):
        read("2PB")


def test_every_byte_counts():
    assert parse_size(str(2**53 + 1)) == 2**53 + 1


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-1",
        "1QB",
        "",
        "KiB",
        "1 2",
        "0.3B",
        "nan",
        "1e-10GB",
        "1e30",
        "e9",
        "1e",
        "9" * 400,
        "2000000TB",
        "9" * 5000,
    ],
)
def test_no_sizes(text):
    with pytest.raises(InputError) as caught:
        parse_size(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "instead"), [("2 Gb", "2GB"), ("100Mb", "100MB"), ("1.5Gib", "1.5GiB")]
)
def test_bits_are_refused_with_a_hint(text, instead):
    with pytest.raises(InputError, match=f"'{text}' is in bits; give bytes, as in {instead}$"):
        parse_size(text)
    assert parse_size(instead) == parse_size(text.lower())


def test_doubling():
    assert rising_sizes(16, 100) == (16, 32, 64)
    with pytest.raises(InputError, match="larger than the largest"):
        rising_sizes(64, 16)


def test_examples_in_docstrings_hold():
    outcome = doctest.testmod(sizes)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("asked", ["10B", "100B", "5KB", "1.5GB", "64MB", "512MiB", "1.5KiB"])
def test_sizes_are_told_as_they_are_asked_for(asked):
    assert size_text(parse_size(asked)).replace(" ", "").upper() == asked.upper()


def test_which_sizes_are_decimal():
    assert is_decimal([10, 100, 1000])
    assert not is_decimal([8, 64, 512])
    assert is_decimal([10, 1000, 10**6, 15 * 10**8])
    assert not is_decimal([1 << 10, 1 << 20, 10**6])
