import pytest

from lanescope.errors import InputError
from lanescope.experiment.sizes import doubling_sizes, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16", 16),
        ("16B", 16),
        ("200KB", 200_000),
        ("64KiB", 65536),
        ("2gib", 2 << 30),
        ("1.5KiB", 1536),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


def test_every_byte_counts():
    assert parse_size(str(2**53 + 1)) == 2**53 + 1


@pytest.mark.parametrize(
    "text", ["0", "-1", "1QB", "", "KiB", "1 2", "0.3B", "nan", "1e9", "9" * 400, "9" * 5000]
)
def test_no_sizes(text):
    with pytest.raises(InputError) as caught:
        parse_size(text)
    assert "\n" not in str(caught.value)


def test_doubling():
    assert doubling_sizes(16, 100) == (16, 32, 64)
    with pytest.raises(InputError, match="larger than the largest"):
        doubling_sizes(64, 16)
