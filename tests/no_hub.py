"""Record each call that would reach the hub of Hugging Face, a hub of kernels, or any other machine."""

import socket
from contextlib import ExitStack, contextmanager
from unittest import mock


@contextmanager
def no_hub():
    """Names of the functions that were called in the `with` block. Each of these calls fails."""
    import huggingface_hub
    import transformers
    from transformers import modeling_utils
    from transformers.utils import hub

    called = []

    def refusing(name):
        def refuse(*arguments, **_):
            called.append(f"{name}{arguments[:2]}"[:200])
            raise OSError(f"{name} was called")

        return refuse

    places = [(socket, "create_connection"), (socket, "getaddrinfo"), (socket.socket, "connect")]
    places += [(huggingface_hub, name) for name in ("hf_hub_download", "snapshot_download", "model_info")]
    places += [
        (huggingface_hub.HfApi, name) for name in ("model_info", "list_repo_files", "list_repo_tree", "repo_info")
    ]
    places += [(hub, "hf_hub_download"), (transformers.dynamic_module_utils, "get_class_in_module")]
    kernels = getattr(transformers.integrations, "hub_kernels", None)
    names = ("get_kernel", "lazy_load_kernel", "load_and_register_attn_kernel")
    places += [(place, name) for place in (kernels, modeling_utils) for name in names if hasattr(place, name)]
    with ExitStack() as stack:
        for place, name in places:
            stack.enter_context(mock.patch.object(place, name, refusing(name)))
        if hasattr(kernels, "is_kernels_available"):  # as if the package `kernels` were installed
            stack.enter_context(mock.patch.object(kernels, "is_kernels_available", return_value=True))
        yield called
