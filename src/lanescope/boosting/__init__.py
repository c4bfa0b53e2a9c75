"""Programs whose copies of pageable memory go a faster path, unchanged."""

from lanescope.boosting.running import environment as environment
from lanescope.boosting.running import is_boosted as is_boosted

__all__ = ["environment", "is_boosted"]
