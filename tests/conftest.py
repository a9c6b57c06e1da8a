"""Where the tests run.

`RANKGRAD_TEST_DEVICE=cuda RANKGRAD_BACKEND=auto pytest` runs them on a GPU and its kernels: tests that ask for no
device then make their tensors there, and bring them back when they turn them into arrays.

`RANKGRAD_TEST_FORK=1 pytest` runs them in a child, forked after kernels and PyTorch have used threads in the parent.
"""

import os
import sys
from typing import Any

import pytest

collect_ignore = ["kinds"]  # a kind of ranker that is known only where a test imports it

DEVICE = os.environ.get("RANKGRAD_TEST_DEVICE", "cpu")
FORK = os.environ.get("RANKGRAD_TEST_FORK") == "1"

# What holds on the CPU only, by the name of the test.
VALUES = "values are checked on the CPU only"
NUMBA = "about the kernels of the CPU"
GIVEN = "the test computes on the CPU"
CPU_ONLY = {
    "test_bad_input_is_told_in_one_sentence": VALUES,
    "test_negative_labels_are_refused_where_labels_are_gains": VALUES,
    "test_values_are_looked_at_on_the_cpu_only": VALUES,
    "test_bad_compositions_are_told_in_one_sentence": VALUES,
    "test_bad_options": VALUES,
    "test_labels_of_rmse_may_have_rounding_errors": VALUES,
    "test_evaluate_errors": VALUES,
    "test_nan_ranks_last_and_is_reported": VALUES,
    "test_nan_scores_are_counted": VALUES,
    "test_compiled_losses_check_their_offsets": VALUES,
    "test_the_number_of_threads_changes_nothing": NUMBA,
    "test_a_matrix_that_is_not_kept": NUMBA,
    "test_every_entry_is_written": NUMBA,
    "test_memory_that_cannot_be_had_is_an_error": NUMBA,
    "test_learndcg_says_how_to_read_its_parameters": NUMBA,
    "test_every_loss_tells_its_kernel_settled_options": NUMBA,
    "test_curvatures_are_told_what_the_losses_tell": NUMBA,
    "test_the_random_state_afterwards_is_that_of_one_pass": GIVEN,
    "test_precision_of_the_first_pass_is_restored": GIVEN,
    "test_scores_do_not_depend_on_chunks_order_or_company": GIVEN,
    "test_passages_are_those_of_the_paper": GIVEN,
    "test_nothing_moves_the_discount_base_of_the_printed_form": GIVEN,
    "test_the_published_form_follows_dcg_where_it_was_trained": GIVEN,
    "test_the_mended_form_follows_dcg_within_every_length": GIVEN,
    "test_beyond_the_lengths_it_saw": GIVEN,
    "test_a_surrogate_that_sees_labels_only_does_not_pass": GIVEN,
    "test_the_caller_keeps_its_random_numbers": GIVEN,
    "test_the_heldout_gradient_is_the_difference_that_the_scalars_make": GIVEN,
    "test_the_best_epoch_is_kept_and_a_run_without_progress_stops": GIVEN,
    "test_a_network_of_grades_refuses_other_labels": VALUES,
}
# Modules whose tests compute on the CPU.
CPU_MODULES = {"test_export.py"}


# What PyTorch itself waits for forever in a forked child.
THREADS = {"test_the_number_of_threads_changes_nothing"}


def go_on_in_a_child() -> None:
    """Run a kernel and PyTorch in two threads, fork, and leave the rest of this process to the child."""
    import torch

    import rankgrad as rg

    torch.set_num_threads(2)
    rg.losses.neural_ndcg(torch.randn(8, 50), torch.ones(8, 50))
    torch.ones(1_000_000).exp().sum()
    if child := os.fork():
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(ended if ended >= 0 else 128 - ended)


if FORK:
    go_on_in_a_child()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        reason = GIVEN if item.path.name in CPU_MODULES else CPU_ONLY.get(getattr(item, "originalname", ""))
        if item.path.name.startswith("test_kernels_") and "fastsort_ndcg" in item.name:
            reason = "fastsort_ndcg has a kernel on the CPU only"
        listmle = item.path.name in ("test_kernels_equal_plain.py", "test_listmle_ties.py")
        if listmle and ("exact" in item.name or "fused" in item.name):
            reason = "listmle with ties='exact' has a kernel on the CPU only"
        if DEVICE != "cpu" and reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        if FORK and getattr(item, "originalname", "") in THREADS:
            item.add_marker(pytest.mark.skip(reason="uses several threads of PyTorch, which a forked child has not"))


if DEVICE != "cpu":
    import torch
    from torch import Tensor

    torch.set_default_device(DEVICE)
    _numpy, _array = Tensor.numpy, Tensor.__array__

    def numpy(tensor: Tensor, **options: Any) -> Any:
        return _numpy(tensor.cpu(), **options)

    def array(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
        return _array(tensor.cpu(), *arguments, **options)

    class Generator(torch.Generator):
        def __new__(cls, device: Any = DEVICE) -> "Generator":
            return super().__new__(cls, device)

    # gradcheck draws on the CPU, from a generator that it makes without naming a device.
    _gradcheck: Any = sys.modules["torch.autograd.gradcheck"]
    _drawn_on_cpu = torch.Generator("cpu")
    _vector = _gradcheck._vec_from_tensor

    def vector(tensor: Tensor, _: Any, *options: Any) -> Tensor:
        return _vector(tensor, _drawn_on_cpu, *options)

    _gradcheck._vec_from_tensor = vector
    Tensor.numpy, Tensor.__array__, torch.Generator = numpy, array, Generator  # type: ignore[assignment,method-assign,misc]
