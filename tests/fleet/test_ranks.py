"""Which process this is, by what the launcher says."""

import sys

import pytest

from lanescope.errors import InputError, LanescopeError
from lanescope.fleet.ranks import Alone, is_first_of_node, ranks_here


@pytest.mark.parametrize("environment", [{}, {"PMI_SIZE": "1"}, {"SLURM_STEP_NUM_TASKS": "1"}])
def test_without_others_no_mpi_is_needed(environment):
    assert isinstance(ranks_here(environment), Alone)


def test_several_processes_need_mpi4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(LanescopeError, match=r"pip install 'lanescope\[mpi\]'") as raised:
        ranks_here({"OMPI_COMM_WORLD_SIZE": "4"})
    assert raised.value.exit_code == 4


def test_a_launcher_that_says_no_number():
    with pytest.raises(InputError, match="PMI_SIZE is 'many'"):
        ranks_here({"PMI_SIZE": "many"})


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({}, True),
        ({"SLURM_LOCALID": "0"}, True),
        ({"SLURM_LOCALID": "3"}, False),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, False),
        ({"MPI_LOCALRANKID": "1", "LANESCOPE_HOST": "n7"}, True),
    ],
)
def test_one_process_of_a_node_measures(environment, first):
    assert is_first_of_node(environment) is first
