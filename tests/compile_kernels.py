"""Compile every kernel for an H100 on a machine without one.

Triton's interpreter accepts programs that its compiler refuses.

python tests/compile_kernels.py prints a line for each kernel. Only its shared memory is checked, because ptxas assigns
the registers.
"""

import os

os.environ["TRITON_INTERPRET"] = "0"  # Triton reads TRITON_INTERPRET when it is imported.

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from rnnlm.losses import softmax_kernel
from rnnlm.models import device_masks, diagonal_recurrence, full_recurrence

H100 = GPUTarget("cuda", 90, 32)
TYPES = {"i": "i32", "f": "fp32", "F": "*fp32", "B": "*bf16", "I": "*i64", "L": "i64", "N": "*i32"}
SHARED_BYTES = 227 * 1024  # The largest shared memory of one thread block, in bytes.
DIAGONAL = {"is_tanh": True, "block": 64}
FULL = {"products": "tf32", "group": 16}
SHARED = {"nonlinearity": "tanh", "columns": 64, "counter_stride": 32}
SHARED_SIZES = (
    {"block": 512, "programs": 8, "sets": 8, "group": 16},
    {"block": 512, "programs": 8, "sets": 16, "group": 64},
    {"block": 1024, "programs": 16, "sets": 8, "group": 16},
    {"block": 1024, "programs": 16, "sets": 8, "group": 32},
)
LOSS = {"pad": 0, "count": 2}
CASES = [  # For each case: a kernel, the types of its arguments, their constants, and the number of warps.
    *((diagonal_recurrence.forward_kernel, "FFFiii", {**DIAGONAL, "is_tanh": tanh}, 4) for tanh in (True, False)),
    *((diagonal_recurrence.backward_kernel, "FFFFiii", {**DIAGONAL, "is_tanh": tanh}, 4) for tanh in (True, False)),
    *(
        (full_recurrence.states_kernel, "BFFFBiiii", {**FULL, "nonlinearity": kind, "block": block}, warps)
        for kind, block, warps in (("tanh", 256, 8), ("tanh", 128, 4), ("relu", 64, 4), ("sigmoid", 16, 4))
    ),
    *(
        (full_recurrence.deltas_kernel, types, {**FULL, "nonlinearity": kind, "block": block, "has_last": last}, warps)
        for types, kind, block, warps, last in (
            ("BBFBBiiiii", "tanh", 256, 8, False),
            ("FFFBBiiiii", "tanh", 128, 4, True),
            ("BFFBBiiiii", "relu", 64, 4, True),
            ("BBFBBiiiii", "sigmoid", 16, 4, False),
        )
    ),
    *((full_recurrence.shared_states_kernel, "BFFFBiiiiN", {**FULL, **SHARED, **size}, 4) for size in SHARED_SIZES),
    *(
        (full_recurrence.shared_deltas_kernel, types, {**FULL, **SHARED, **size, "has_last": last}, 4)
        for size in SHARED_SIZES
        for types, last in (("BBFBBiiiiiN", False), ("BFFBBiiiiiN", True))
    ),
    (device_masks.mask_kernel, "FLiiiiff", {"block": 1_024}, 4),
    *((softmax_kernel.row_kernel, kind + "IFffii", {**LOSS, "block": 8_192}, 8) for kind in "BF"),
    (softmax_kernel.row_kernel, "BIFffii", {**LOSS, "block": 1_024}, 4),
    (softmax_kernel.long_row_kernel, "BIFffii", {**LOSS, "block": 2_048}, 4),
]


def compile_kernel(kernel: triton.JITFunction, types: str, constants: dict[str, object], warps: int) -> str:
    """Compile a kernel, and return its name and its shared memory. Raise triton.CompilationError if that fails."""
    names = [name for name in kernel.arg_names if name not in constants]
    signature = {name: TYPES[kind] for name, kind in zip(names, types, strict=True)}
    signature |= dict.fromkeys(constants, "constexpr")
    ordered = {name: signature[name] for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature=ordered, constexprs=places)
    options = {"num_warps": warps, "num_stages": 1 if "sets" in constants else 3}
    compiled = triton.compile(source, target=H100, options=options)
    assert compiled.metadata.shared <= SHARED_BYTES, f"{kernel.__name__} {constants}: {compiled.metadata.shared} bytes"
    return f"{kernel.__name__} {constants}: {compiled.metadata.shared} bytes of shared memory"


if __name__ == "__main__":
    for case in CASES:
        print(compile_kernel(*case), flush=True)
