import pytest

from lanescope.engine.core import reason_for


@pytest.mark.parametrize(
    ("name", "words", "lost"),
    [
        ("cudaErrorMemoryAllocation", "not enough free memory", False),
        ("cudaErrorDevicesUnavailable", "exclusive-process", True),
        ("cudaErrorLaunchFailure", "failed in the middle", True),
        ("cudaErrorECCUncorrectable", "failed in the middle", True),
        ("cudaErrorTimeout", "did not answer", True),
        ("cudaErrorInsufficientDriver", "too old", False),
        ("errno 12", "not enough memory", False),
        ("cudaErrorSomethingNew", "The driver refused: the text of the driver", False),
        ("errno 1", "The system refused", False),
        ("gate timeout", "could not be queued", False),
        ("kernel apart", "did not all run at the same time", False),
        ("chunk too large", "shared memory", False),
    ],
)
def test_reasons(name, words, lost):
    failure = reason_for("cudaCall", 1, name, "the text of the driver", "file.cpp:1")
    assert words in failure.error.reason
    assert failure.device_lost is lost
    assert "cudaCall" in failure.error.reason  # for a bug report
    assert "\n" not in str(failure.error)


def test_the_number_of_an_error_stands_there_once():
    failure = reason_for("mmap of 8 bytes", 12, "errno 12", "Cannot allocate memory", "file.cpp:1")
    assert "[mmap of 8 bytes: errno 12, file.cpp:1]" in failure.error.reason
    failure = reason_for(
        "cudaMalloc", 2, "cudaErrorMemoryAllocation", "out of memory", "file.cpp:1"
    )
    assert "[cudaMalloc: cudaErrorMemoryAllocation 2, file.cpp:1]" in failure.error.reason


def test_pages_on_another_node_are_told_in_the_cores_words():
    words = "7 % of the pages lie on other nodes than h1"
    error = reason_for("move_pages", 0, "pages elsewhere", words, "pages.cpp:1").error
    assert error.reason.startswith(words + ".")
    assert "Free memory of that node" in error.remedy


def test_what_the_core_refuses_itself_is_told_in_its_words_and_blames_no_system():
    words = "task 3 copies array 1; of its direction there are 1"
    error = reason_for("TaskGraph", 0, "bad tasks", words, "task_graph.cpp:1").error
    assert error.reason.startswith("Task 3 copies array 1; of its direction there are 1. [")


def test_a_gpu_without_code_is_explained_with_what_to_build():
    words = "this build of lanescope has code for sm_80, and none of it runs on GPU 0"
    error = reason_for("launch", 209, "no code", words, "kernels.cu:1").error
    assert str(error).startswith("This build of lanescope has code for sm_80")
    assert "LANESCOPE_ARCHITECTURES=all" in (error.remedy or "")
