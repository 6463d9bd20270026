"""``torch.compile(backend="tpu")``: each graph AOTAutograd makes becomes one StableHLO program.

The graphs are run once per set of input types by the operator table that serves eager calls, under
a trace; see csrc/compiler.
"""

import itertools
import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tpu import _C

# TORCH_LOGS="torch_tpu._compile" shows the graphs, "+torch_tpu._compile" the programs too.
log = logging.getLogger(__name__)

_OPTIONS = frozenset({"name"})
_numbers = itertools.count()
_runners: "weakref.WeakValueDictionary[str, _C._GraphRunner]" = weakref.WeakValueDictionary()


def programs() -> dict[str, list[str]]:
    """StableHLO text of every compiled graph that is still alive, by the graph's name."""
    return {name: runner.programs for name, runner in sorted(_runners.items())}


def _runner(gm: torch.fx.GraphModule, name: str) -> Callable[..., Any]:
    from torch._dynamo.utils import counters

    counters["tpu"]["graphs"] += 1
    runner = _C._GraphRunner(name, gm.forward)
    _runners[name] = runner
    if log.isEnabledFor(logging.INFO):
        log.info("%s\n%s", name, gm.print_readable(print_output=False))

    logged = 0

    def call(args: list[Any]) -> Any:
        nonlocal logged
        inputs = list(args)
        args.clear()
        outputs = runner(*inputs)
        if log.isEnabledFor(logging.DEBUG):
            for text in runner.programs[logged:]:
                log.debug("%s as StableHLO\n%s", name, text)
                logged += 1
        return outputs

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _on_cpu_only(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether no value of the graph lives on a device "tpu"."""

    def on_tpu(value: Any) -> bool:
        leaves = torch.utils._pytree.tree_leaves(value)
        return any(isinstance(leaf, torch.Tensor) and leaf.device.type == "tpu" for leaf in leaves)

    if any(on_tpu(value) for value in example_inputs):
        return False
    for node in gm.graph.nodes:
        value = node.meta.get("val", node.meta.get("example_value"))
        if on_tpu(value):
            return False
        leaves = torch.utils._pytree.tree_leaves((node.args, node.kwargs))
        if any(isinstance(leaf, torch.device) and leaf.type == "tpu" for leaf in leaves):
            return False
    return True


def tpu_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The Dynamo backend "tpu".

    Args:
        gm: The graph Dynamo captured.
        example_inputs: Its inputs, fake tensors.
        options: ``name``: what the graph's programs are called in logs.
        mode: Accepted for every mode ``torch.compile`` knows; all compile alike.

    Raises:
        ValueError: An unknown option.
    """
    del mode
    options = options or {}
    unknown = set(options) - _OPTIONS
    if unknown:
        raise ValueError(
            f'torch.compile(backend="tpu"): unknown options {sorted(unknown)}, '
            f"expected any of {sorted(_OPTIONS)}"
        )
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    base = f"{options.get('name', 'graph')}_{next(_numbers)}"

    def compiler(part: str) -> Callable[..., Any]:
        def compile_part(graph: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
            return _runner(graph, f"{base}_{part}")

        return compile_part

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def default_backend(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any
) -> Callable[..., Any]:
    """What ``torch.compile`` without a backend does: "tpu" for graphs on it, else Inductor."""
    if _on_cpu_only(gm, example_inputs):
        wrapper = torch._TorchCompileInductorWrapper(
            kwargs.get("mode"), kwargs.get("options"), kwargs.get("dynamic")
        )
        return wrapper(gm, example_inputs)
    return tpu_backend(gm, example_inputs, **kwargs)
