"""The Triton kernels of full_recurrence.py. One program, or several programs together, compute a row.

The module is copied into every bundle. Without Triton it defines no kernel. Shapes: rows b, steps t, units H.
"""

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Triton 3.6 compiles annotations and fails for names that it does not know, so the kernels have none.
if triton is not None:

    @triton.jit
    def activation(total, nonlinearity: tl.constexpr):
        if nonlinearity == "tanh":
            total = 2.0 * tl.sigmoid(2.0 * total) - 1.0
        elif nonlinearity == "sigmoid":
            total = tl.sigmoid(total)
        else:
            total = tl.maximum(total, 0.0)
        return total

    @triton.jit
    def slope_at(h, nonlinearity: tl.constexpr):
        """Return the derivative of the activation function at the point where its value is h."""
        if nonlinearity == "tanh":
            slope = 1.0 - h * h
        elif nonlinearity == "sigmoid":
            slope = h * (1.0 - h)
        else:
            slope = (h > 0.0).to(tl.float32)
        return slope

    @triton.jit
    def wait_for_set(counter, expected):
        """Wait until `expected` programs, including this one, have arrived.

        After this call, the values that these programs have stored can be read.
        """
        tl.debug_barrier()  # Wait until all threads of this program have stored their values.
        tl.atomic_add(counter, 1, sem="release", scope="gpu")
        while tl.atomic_add(counter, 0, sem="acquire", scope="gpu") < expected:
            pass
        tl.debug_barrier()

    @triton.jit(do_not_specialize=["steps", "rows"])
    def states_kernel(
        a,
        U,
        b,
        state,
        states,
        steps,
        rows,
        units,
        state_stride,
        nonlinearity: tl.constexpr,
        products: tl.constexpr,
        group: tl.constexpr,
        block: tl.constexpr,
    ):
        """Compute the states of a group of rows for all time steps.

        `group` is the number of rows of a program. `block` is the number of units, rounded up to a power of two. The
        states of the added units are zero.
        """
        row = tl.program_id(0) * group + tl.arange(0, group)
        unit, before = tl.arange(0, block), tl.arange(0, block)
        inside = (row[:, None] < rows) & (unit[None, :] < units)
        within = (before[:, None] < units) & (unit[None, :] < units)
        u = tl.load(U + before[:, None] * units + unit[None, :], within, 0.0).to(states.dtype.element_ty)
        bias = tl.load(b + unit, unit < units, 0.0).to(tl.float32)[None, :]
        h = tl.load(state + row[:, None] * state_stride + unit[None, :], inside, 0.0).to(states.dtype.element_ty)
        place = row[:, None] * units + unit[None, :]
        tl.store(states + place, h, inside)
        now = tl.load(a + place, inside, 0.0)
        for step in range(steps):
            total = tl.dot(h, u, input_precision=products) + (now.to(tl.float32) + bias)
            place += rows * units
            # The input of the next step is loaded while the current step is computed.
            now = tl.load(a + place, inside & (step + 1 < steps), 0.0)
            total = activation(total, nonlinearity)
            h = total.to(states.dtype.element_ty)
            tl.store(states + place, h, inside)

    @triton.jit(do_not_specialize=["steps", "rows"])
    def deltas_kernel(
        states_grad,
        last_grad,
        U,
        states,
        deltas,
        steps,
        rows,
        units,
        row_stride,
        step_stride,
        has_last: tl.constexpr,
        nonlinearity: tl.constexpr,
        products: tl.constexpr,
        group: tl.constexpr,
        block: tl.constexpr,
    ):
        """Compute delta = (gradient of h + next delta Uᵀ) f'(h) from the last time step to the first.

        The strides are those of `states_grad`.
        """
        row = tl.program_id(0) * group + tl.arange(0, group)
        unit, after = tl.arange(0, block), tl.arange(0, block)
        inside = (row[:, None] < rows) & (unit[None, :] < units)
        within = (after[:, None] < units) & (unit[None, :] < units)
        u = tl.load(U + unit[None, :] * units + after[:, None], within, 0.0).to(deltas.dtype.element_ty)
        place = (steps - 1) * rows * units + row[:, None] * units + unit[None, :]
        grad_place = (steps - 1) * step_stride + row[:, None] * row_stride + unit[None, :]
        g = tl.load(states_grad + grad_place, inside, 0.0).to(tl.float32)
        if has_last:
            g += tl.load(last_grad + row[:, None] * units + unit[None, :], inside, 0.0).to(tl.float32)
        h = tl.load(states + rows * units + place, inside, 0.0).to(tl.float32)
        delta = tl.zeros([group, block], deltas.dtype.element_ty)
        for step in range(steps):
            slope = slope_at(h, nonlinearity)
            total = tl.dot(delta, u, input_precision=products) + g
            grad_place -= step_stride
            # The values of the previous time step are loaded while the current one is computed.
            earlier = inside & (step + 1 < steps)
            g = tl.load(states_grad + grad_place, earlier, 0.0).to(tl.float32)
            h = tl.load(states + place, earlier, 0.0).to(tl.float32)
            delta = (total * slope).to(deltas.dtype.element_ty)
            tl.store(deltas + place, delta, inside)
            place -= rows * units

    @triton.jit(do_not_specialize=["steps", "rows"])
    def shared_states_kernel(
        a,
        U,
        b,
        state,
        states,
        steps,
        rows,
        units,
        state_stride,
        nonlinearity: tl.constexpr,
        arrived,
        products: tl.constexpr,
        group: tl.constexpr,
        block: tl.constexpr,
        columns: tl.constexpr,
        programs: tl.constexpr,
        sets: tl.constexpr,
        counter_stride: tl.constexpr,
    ):
        """Compute the states of groups of rows, each group by a set of several programs.

        A set has `programs` programs, each of which computes some columns. Each set computes every `sets`-th group of
        rows.
        """
        own_set, program = tl.program_id(0) // programs, tl.program_id(0) % programs
        unit, before = program * columns + tl.arange(0, columns), tl.arange(0, block)
        within = (before[:, None] < units) & (unit[None, :] < units)
        u = tl.load(U + before[:, None] * units + unit[None, :], within, 0.0).to(states.dtype.element_ty)
        bias = tl.load(b + unit, unit < units, 0.0).to(tl.float32)[None, :]
        counter, expected = arrived + own_set * counter_stride, 0
        for first in range(own_set * group, rows, sets * group):
            row = first + tl.arange(0, group)
            inside = (row[:, None] < rows) & (unit[None, :] < units)
            all_inside = (row[:, None] < rows) & (before[None, :] < units)
            place, every = row[:, None] * units + unit[None, :], row[:, None] * units + before[None, :]
            start = state + row[:, None] * state_stride
            tl.store(states + place, tl.load(start + unit[None, :], inside, 0.0).to(states.dtype.element_ty), inside)
            h = tl.load(start + before[None, :], all_inside, 0.0).to(states.dtype.element_ty)
            now = tl.load(a + place, inside, 0.0)
            for step in range(steps):
                total = tl.dot(h, u, input_precision=products) + (now.to(tl.float32) + bias)
                place += rows * units
                every += rows * units
                now = tl.load(a + place, inside & (step + 1 < steps), 0.0)
                total = activation(total, nonlinearity)
                tl.store(states + place, total.to(states.dtype.element_ty), inside)
                expected += programs
                wait_for_set(counter, expected)
                # Other programs have written these states, so the load bypasses the L1 cache.
                h = tl.load(states + every, all_inside, 0.0, cache_modifier=".cg")

    @triton.jit(do_not_specialize=["steps", "rows"])
    def shared_deltas_kernel(
        states_grad,
        last_grad,
        U,
        states,
        deltas,
        steps,
        rows,
        units,
        row_stride,
        step_stride,
        has_last: tl.constexpr,
        nonlinearity: tl.constexpr,
        arrived,
        products: tl.constexpr,
        group: tl.constexpr,
        block: tl.constexpr,
        columns: tl.constexpr,
        programs: tl.constexpr,
        sets: tl.constexpr,
        counter_stride: tl.constexpr,
    ):
        own_set, program = tl.program_id(0) // programs, tl.program_id(0) % programs
        unit, after = program * columns + tl.arange(0, columns), tl.arange(0, block)
        within = (after[:, None] < units) & (unit[None, :] < units)
        u = tl.load(U + unit[None, :] * units + after[:, None], within, 0.0).to(deltas.dtype.element_ty)
        counter, expected = arrived + own_set * counter_stride, 0
        for first in range(own_set * group, rows, sets * group):
            row = first + tl.arange(0, group)
            inside = (row[:, None] < rows) & (unit[None, :] < units)
            all_inside = (row[:, None] < rows) & (after[None, :] < units)
            last = (steps - 1) * rows * units
            place, every = last + row[:, None] * units + unit[None, :], last + row[:, None] * units + after[None, :]
            grad_place = (steps - 1) * step_stride + row[:, None] * row_stride + unit[None, :]
            g = tl.load(states_grad + grad_place, inside, 0.0).to(tl.float32)
            if has_last:
                g += tl.load(last_grad + row[:, None] * units + unit[None, :], inside, 0.0).to(tl.float32)
            h = tl.load(states + rows * units + place, inside, 0.0).to(tl.float32)
            delta = tl.zeros([group, block], deltas.dtype.element_ty)
            for step in range(steps):
                slope = slope_at(h, nonlinearity)
                total = tl.dot(delta, u, input_precision=products) + g
                grad_place -= step_stride
                earlier = inside & (step + 1 < steps)
                g = tl.load(states_grad + grad_place, earlier, 0.0).to(tl.float32)
                h = tl.load(states + place, earlier, 0.0).to(tl.float32)
                tl.store(deltas + place, (total * slope).to(deltas.dtype.element_ty), inside)
                expected += programs
                wait_for_set(counter, expected)
                delta = tl.load(deltas + every, all_inside, 0.0, cache_modifier=".cg")
                place -= rows * units
                every -= rows * units
