"""The loss of a step, from its calls of backward."""

import torch
from torch import Tensor, nn

from fixtures.extras.loss.in_rank.observed_loss import ObservedLoss, observed


def of_step(*roots: Tensor | list[Tensor]) -> list[float | None]:
    loss = ObservedLoss()
    for root in roots:
        loss.before_backward(root)
    return loss.result().losses if loss.end_step() else []


def test_the_loss_of_a_step_is_the_mean_of_its_calls() -> None:
    assert of_step(torch.tensor(1.0), torch.tensor([3.0])) == [2.0]


def test_the_roots_of_one_call_are_summed() -> None:
    assert of_step([torch.tensor(1.0), torch.tensor(3.0)]) == [4.0]


def test_a_tensor_with_a_gradient_by_hand_is_no_loss() -> None:
    assert of_step(torch.ones(4, 2)) == []


def test_a_loss_that_is_not_finite_is_none() -> None:
    assert of_step(torch.tensor(torch.nan)) == [None]


def test_the_factor_of_a_scaler_is_taken_out_also_where_the_scaled_loss_is_divided_again() -> None:
    loss, scale = ObservedLoss(), torch.amp.GradScaler.scale
    try:
        loss.watch_scaler()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        loss.before_backward(scaler.scale(torch.tensor(6.0)) / 2)
    finally:
        torch.amp.GradScaler.scale = scale  # type: ignore[method-assign]
    assert loss.end_step()
    assert loss.result().losses == [3.0]


def test_what_the_code_does_to_its_loss_afterwards_changes_nothing() -> None:
    with observed() as loss:
        model, root = nn.Linear(2, 1), torch.zeros(())
        root = model(torch.ones(2)).sum()
        before = root.item()
        root.backward()
        root.detach().mul_(5)
    assert loss.end_step()
    assert loss.result().losses == [before]
