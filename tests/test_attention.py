"""Scaled dot-product attention and the fused inference operators of transformers."""

import pytest
import torch
import torch.nn.functional as F
from against_cpu import assert_agrees

import torch_tpu  # noqa: F401


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: object):
    return F.scaled_dot_product_attention(query, key, value, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(5, 7, 8, 6), (9, 4, 8, 8), (1, 12, 4, 4)])
def test_attention_agrees_with_cpu(
    sizes: tuple[int, ...], causal: bool, dtype: torch.dtype
) -> None:
    rows, columns, width, value_width = sizes
    assert_agrees(
        lambda q, k, v: attention(q, k, v, is_causal=causal),
        random(2, 3, rows, width, dtype=dtype),
        random(2, 3, columns, width, dtype=dtype) + 1,
        random(2, 3, columns, value_width, dtype=dtype) - 1,
    )


@pytest.mark.parametrize("shape", [(5, 7), (2, 1, 5, 7), (2, 1, 1, 7), (1, 3, 5, 7)])
def test_a_bias_is_added_to_the_scores_and_has_a_gradient(shape: tuple[int, ...]) -> None:
    assert_agrees(
        lambda q, k, v, bias: attention(q, k, v, attn_mask=bias),
        random(2, 3, 5, 8),
        random(2, 3, 7, 8),
        random(2, 3, 7, 6),
        random(*shape),
        rtol=1e-5,
        atol=1e-5,
    )


def test_rows_without_a_visible_column_are_zero() -> None:
    mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[2] = False
    inputs = random(2, 3, 5, 8), random(2, 3, 7, 8), random(2, 3, 7, 6)
    assert_agrees(
        lambda q, k, v: attention(q, k, v, attn_mask=mask.to(q.device)), *inputs, gradients=True
    )
    got = attention(*(t.to("tpu") for t in inputs), attn_mask=mask.to("tpu"))
    assert bool((got[:, :, 2] == 0).all())


def test_query_heads_share_key_heads_when_grouped() -> None:
    assert_agrees(
        lambda q, k, v: attention(q, k, v, enable_gqa=True),
        random(2, 6, 5, 8),
        random(2, 3, 7, 8),
        random(2, 3, 7, 8),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_take_their_softmax_in_float32(dtype: torch.dtype) -> None:
    q, k, v = (random(2, 3, n, 8, dtype=dtype) for n in (5, 7, 7))
    got = attention(q.to("tpu"), k.to("tpu"), v.to("tpu")).cpu()
    exact = attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(got.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_long_sequences_in_blocks_agree_with_cpu(causal: bool) -> None:
    # Enough scores for the blockwise form, and a size that no block divides.
    assert_agrees(
        lambda q, k, v: attention(q, k, v, is_causal=causal),
        *(random(1, 24, 1210, 16) + i for i in range(3)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_dropout_keeps_the_expected_share_and_its_gradient_uses_the_same_mask() -> None:
    q, k = (random(2, 3, 64, 16).to("tpu") + i for i in range(2))
    eye = torch.eye(64, device="tpu").expand(2, 3, 64, 64).clone().requires_grad_()
    weights = attention(q, k, eye, dropout_p=0.25)
    kept = weights != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.02
    exact = torch.softmax(q @ k.mT / 4, -1) * kept / 0.75
    torch.testing.assert_close(weights, exact)
    weights.sum().backward()
    torch.testing.assert_close(eye.grad, exact.sum(-2, keepdim=True).mT.expand(2, 3, 64, 64))


def test_inference_of_a_transformer_encoder_layer_agrees_with_cpu() -> None:
    torch.manual_seed(0)
    for norm_first in (False, True):
        layer = torch.nn.TransformerEncoderLayer(
            16, 4, 32, batch_first=True, norm_first=norm_first, activation="gelu"
        ).eval()
        x = random(2, 5, 16)
        with torch.no_grad():
            want = layer(x)
            got = layer.to("tpu")(x.to("tpu"))
        torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)


def test_inference_of_multi_head_attention_gives_weights() -> None:
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = random(2, 5, 16)
    padding = torch.tensor([[False, False, False, True, True], [False] * 5])
    with torch.no_grad():
        want = module(x, x, x, key_padding_mask=padding)
        module.to("tpu")
        y = x.to("tpu")
        got = module(y, y, y, key_padding_mask=padding.to("tpu"))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_half_gradients_have_the_error_of_one_rounding(causal: bool) -> None:
    torch.manual_seed(0)
    half = [3 * torch.randn(2, 4, 16, 8, dtype=torch.bfloat16) for _ in range(4)]

    def gradients(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        *operands, grad = (t.detach() for t in tensors)
        operands = [t.requires_grad_() for t in operands]
        y = F.scaled_dot_product_attention(*operands, is_causal=causal)
        return [g.cpu().double() for g in torch.autograd.grad(y, operands, grad)]

    exact = gradients([t.double() for t in half])
    for got, want in zip(gradients([t.to("tpu") for t in half]), exact, strict=True):
        allowed = want.abs() * 2**-8 + 1e-5 * want.abs().max()
        assert bool(((got - want).abs() <= allowed).all())
