"""Serve a model over HTTP with `rnnlm serve`."""

from typing import Annotated

from flows.commands.command import Session
from flows.commands.option_groups import fields
from flows.commands.options import Model
from rnnlm.extensions.serving.serving_config import ServingConfig, bound_socket
from rnnlm.registry.model_lookup import model_folder

HEADING = "Models"


def serve_command(
    session: Session,
    config: Annotated[
        ServingConfig,
        fields(
            *("host", "port", "token", "maximum_running", "maximum_waiting", "maximum_seconds"),
            *("poll_seconds", "drain_seconds"),
            variables={"token": "RNNLM_SERVE_TOKEN"},
        ),
    ],
    model: Model = None,
) -> None:
    """Serve a model over HTTP, with a page to try it.

    The model is reloaded when its alias moves to another version.

    rnnlm serve
    rnnlm serve rnnlm-python-docs --port 8080
    """
    # The socket is opened before torch is imported, so that an occupied port is reported at once.
    with bound_socket(config):
        pass
    model_folder(session.home, model)
    from rnnlm.extensions.serving.server import serve_model

    def announce(address: str, model: str) -> None:
        session.print_result(f"serving    {model}\nat         {address}", {"model": model, "address": address})

    serve_model(session.home, model, config, announce)
