"""The copies of a Python program that runs already, boosted within a block."""

from __future__ import annotations

from typing import Any

from lanescope.calls import checked
from lanescope.errors import MissingPartError


@checked
def boost() -> Any:
    """Return a context in which PyTorch's large copies of pageable memory go by several threads.

    >>> with lanescope.boost() as boosted:  # doctest: +SKIP
    ...     model.to("cuda")
    >>> print(boosted)  # doctest: +SKIP

    Of this thread, to and from GPUs, whatever makes them: ``to``, ``cuda``, ``cpu``, ``copy_``,
    ``torch.load``, ``torch.save``, those of modules; of memory of the host that is not pinned, of
    which new pages are had by several threads, too. A copy returns when it is over, as PyTorch's
    own of such memory, also with ``non_blocking``. Each operation within takes PyTorch some
    microseconds more, so that it is for what loads and stores, and not for a whole training. To
    boost copies of other threads and of other libraries, start the program by ``lanescope boost``.

    Returns
    -------
    BoostedCopies
        Whose `copies` and `bytes` are what was handed to the boost.

    Raises
    ------
    MissingPartError
        If there is no PyTorch, or a part of this installation is missing.
    """
    try:
        from lanescope.boosting.torch_copies import BoostedCopies
    except ImportError:
        raise MissingPartError("PyTorch is missing; pip install torch") from None
    return BoostedCopies()
