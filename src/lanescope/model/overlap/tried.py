"""Numbers of streams that were tried for a method, and their predictions once wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from lanescope.model.overlap.predictor import Prediction


class Tried:
    """Predictions of one method by rising numbers of streams.

    An interval takes a replay as long as the time itself does, and twice that: it is made when a
    prediction is looked at, not for all that a search goes through.

    Parameters
    ----------
    values
        Seconds by number of streams; one or more.
    predict
        Makes the prediction of a number, whose middle is that value.
    """

    def __init__(self, values: Mapping[int, float], predict: Callable[[int], Prediction]) -> None:
        self._values = dict(sorted(values.items()))
        self._predict = lru_cache(maxsize=None)(predict)

    def __iter__(self) -> Iterator[Prediction]:
        return map(self._predict, self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def best(self) -> Prediction:
        """The fastest; of equally fast ones that with the fewest streams."""
        return self._predict(min(self._values, key=self._values.__getitem__))

    @property
    def most_streams(self) -> int:
        """The largest number of streams that was tried."""
        return max(self._values)

    def fewest_streams(self, seconds: float) -> int:
        """Return the smallest number of streams that takes so long or less."""
        return next(streams for streams, value in self._values.items() if value <= seconds)
