"""What the command is about without GPUs."""

from dataclasses import replace

import pytest

from lanescope.errors import InputError
from lanescope.studies.nccl import Nccl


def test_a_machine_without_gpus_is_not_pointed_to_an_option_that_is_not_there(two_gpus):
    bare = replace(two_gpus, gpus=(), links=())
    with pytest.raises(InputError, match=r"has 0 to measure here; it takes two$"):
        Nccl().work(bare)
