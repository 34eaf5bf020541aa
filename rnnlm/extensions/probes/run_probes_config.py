"""The settings `probes`, which select the measurements and plots of every trained model."""

from typing import TYPE_CHECKING

from rnnlm.config.bounds import NonNegativeInt
from rnnlm.config.section import Section, setting

if TYPE_CHECKING:
    from rnnlm.config import PipelineConfig


class ProbesConfig(Section):
    """Settings of the plots that are made of a trained model after its evaluation."""

    gradient_flow: bool = setting(True, "Whether to plot the norms of gradients against the distance back in time.")
    gradient_steps: int = setting(
        60,
        "Maximum number of time steps back from the loss at which gradients are measured. Sentences may be shorter.",
        ge=1,
        le=10_000,
    )
    gradient_rows: int = setting(
        64, "Maximum number of windows of validation text on which gradients are measured.", ge=1, le=65_536
    )
    positions: bool = setting(
        False,
        "Whether to plot the accuracy of the next token against its position in the row. This needs sentence mode.",
    )
    given_tokens: NonNegativeInt = setting(
        8, "Number of tokens given at the start of each row before the model continues on its own."
    )

    def check_with(self, whole: "PipelineConfig") -> None:
        if self.positions and whole.sequences.mode != "sentence":
            raise ValueError("probes.positions needs sequences.mode=sentence: a running text has no rows")
