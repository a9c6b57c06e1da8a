"""Parallel loop over the tasks of a CPU kernel.

Numba's `prange` compiles the loop body four times; this loop compiles the body once. Tasks are not assigned to threads
in advance: a free thread takes the next task. So lists of different lengths, and cores that are busy with other work,
cause no delay. If a task fails, the loop raises an error. Numba itself ignores errors inside a parallel region, and the
results are then undefined.
"""

from typing import Any

import numba
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = ir.IntType(64)
_TASK = ir.FunctionType(ir.VoidType(), [_WORD, _WORD])


@intrinsic
def _call(context: Any, task: Any, data: Any, index: Any) -> Any:
    """Call a task of the parallel loop. `task` is the address of the task's function."""
    del context, task, data, index

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.call(builder.inttoptr(arguments[0], _TASK.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def _next(context: Any, counter: Any) -> Any:
    """Return the number of the next task: atomic fetch-and-increment of the counter at an address."""
    del context, counter

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.inttoptr(arguments[0], _WORD.as_pointer())
        return builder.atomic_rmw("add", address, _WORD(1), "monotonic")

    return types.int64(types.int64), generate


@intrinsic
def _threads(context: Any) -> Any:
    """Return the number of threads that Numba uses for parallel loops of the calling thread."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_WORD, []), "get_num_threads")
        return builder.call(function, [])

    return types.int64(), generate


@numba.njit(parallel=True)
def _each(task, data, counter, count):
    """Call all tasks of the parallel loop, in as many threads as Numba uses."""
    if _threads() == 1:  # OpenMP is not used: in a forked child, OpenMP would wait for threads of the parent
        for index in range(count):
            _call(task, data, index)
    else:
        for _ in prange(count):  # a thread does all its tasks in its first iteration; later iterations are empty
            index = _next(counter)
            while index < count:
                _call(task, data, index)
                index = _next(counter)


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Remove the reference counts of arrays that the tasks of the parallel loop share, also in nested tuples.

    Otherwise the threads would compete for the reference counts.
    """
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = array.parent = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        for i, part in enumerate(kind):
            inner = _borrowed(context, builder, part, builder.extract_value(value, i))
            value = builder.insert_value(value, inner, i)
    return value


@intrinsic
def spread(typing: Any, function: Any, count: Any, arguments: Any) -> Any:
    """Run the tasks of a CPU kernel: call `function(i, *arguments)` for i from 0 to `count - 1`, in several threads.

    `arguments` is a tuple. Raises MemoryError if a task failed, because only an allocation can fail in a kernel.
    """
    driver = types.Dispatcher(_each)
    inner = function.get_call_type(typing, (types.int64, *map(types.unliteral, arguments)), {})
    outer = driver.get_call_type(typing, (types.int64,) * 4, {})

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        # The task loads the arguments from the shared memory, and calls the function.
        task = ir.Function(builder.module, _TASK, builder.module.get_unique_name("task"))
        task.linkage = "internal"
        inside = ir.IRBuilder(task.append_basic_block())
        shared_type = ir.LiteralStructType([values[2].type, _WORD])  # arguments; 1 if a task failed, else 0
        shared = inside.inttoptr(task.args[0], shared_type.as_pointer())
        packed = inside.load(cgutils.gep_inbounds(inside, shared, 0, 0))
        compiled = function.dispatcher.get_compile_result(inner)
        context.add_linking_libs([compiled.library])
        callee = context.declare_function(builder.module, compiled.fndesc)
        parts = [task.args[1], *cgutils.unpack_tuple(inside, packed)]
        status, _ = context.call_conv.call_function(inside, callee, inner.return_type, inner.args, parts)
        with inside.if_then(status.is_error):
            inside.store_atomic(_WORD(1), cgutils.gep_inbounds(inside, shared, 0, 1), "monotonic", 8)
        inside.ret_void()

        data = cgutils.alloca_once(builder, shared_type)
        builder.store(_borrowed(context, builder, arguments, values[2]), cgutils.gep_inbounds(builder, data, 0, 0))
        failed = cgutils.gep_inbounds(builder, data, 0, 1)
        builder.store(_WORD(0), failed)
        counter = cgutils.alloca_once_value(builder, _WORD(0))
        pointers = [builder.ptrtoint(pointer, _WORD) for pointer in (task, data, counter)]
        context.get_function(driver, outer)(builder, [*pointers, values[1]])
        with builder.if_then(cgutils.is_true(builder, builder.load(failed)), likely=False):
            context.call_conv.return_user_exc(builder, MemoryError, ("a kernel could not allocate its memory",))
        return context.get_dummy_value()

    return types.void(function, types.int64, arguments), generate
