"""What an exception means: memory that ran out, by class, subclass, text and cause (T5, T6)."""

import errno

import pytest

from trackside.worker.child.process.out_of_memory import disk_is_full, out_of_memory
from trackside.worker.child.serialise import error_fields


class OutOfMemoryError(RuntimeError):
    """Looks as torch's does."""


Special = type("Special", (OutOfMemoryError,), {})
OwnRuntimeError = type("OwnRuntimeError", (RuntimeError,), {})
OwnMemoryError = type("OwnMemoryError", (MemoryError,), {})
CupyError = type("OutOfMemoryError", (MemoryError,), {})  # so is that of cupy.cuda.memory


@pytest.mark.parametrize(
    ("error", "resource"),
    [
        (MemoryError(), "host"),
        (OwnMemoryError("x"), "host"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "host"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "host"),
        (OutOfMemoryError("whatever"), "device"),
        (Special("whatever"), "device"),
        (CupyError(), "device"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "device"),
        (OwnRuntimeError("CUDA out of memory"), "device"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), "device"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), None),
        (ValueError("CUDA out of memory"), None),
        (RuntimeError("something else"), None),
        (OSError(errno.ENOSPC, "No space left on device"), None),
        (SystemExit(1), None),
    ],
)
def test_t6_an_exception_is_classified_by_its_class_and_text(
    error: BaseException, resource: str | None
) -> None:
    assert out_of_memory(error) == resource


def chained(cause: BaseException, how: str) -> BaseException:
    try:
        try:
            raise cause
        except BaseException as error:
            if how == "from":
                raise ValueError("the batch failed") from error
            if how == "from None":
                raise ValueError("the batch failed") from None
            raise ValueError("the batch failed")  # noqa: B904 - that is the case
    except ValueError as error:
        return error


@pytest.mark.parametrize("how", ["from", "from None", "while"])
@pytest.mark.parametrize(
    ("cause", "resource"), [(MemoryError(), "host"), (OutOfMemoryError("x"), "device"), (KeyError(1), None)]
)
def test_t6_what_led_to_an_exception_counts(how: str, cause: BaseException, resource: str | None) -> None:
    assert out_of_memory(chained(cause, how)) == resource


def test_t6_one_of_a_group_counts_and_a_circle_of_causes_has_an_end() -> None:
    assert out_of_memory(ExceptionGroup("several", [ValueError(), MemoryError()])) == "host"
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    assert out_of_memory(first) is None


def test_fm_21_a_full_disk_is_named() -> None:
    error = chained(OSError(errno.ENOSPC, "No space left on device"), "from")
    assert disk_is_full(error) and not disk_is_full(ValueError())
    said = error_fields("TRAIN", error)
    assert (said["type"], said["message"]) == ("ValueError", "the disk is full: the batch failed")
