"""The settings training.teacher, which choose the teacher: the model whose probabilities a network learns."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from rnnlm.config.section import Section, setting

if TYPE_CHECKING:
    from rnnlm.config import PipelineConfig


class TeacherConfig(Section):
    """Settings of distillation, in which a network learns from another model's probabilities besides the text."""

    run: str | None = setting(
        None,
        "Id of the finished run whose model is the teacher, as listed by rnnlm runs. The model must be a network or an "
        "ensemble that was trained on the same dataset. If null, the network learns from the text alone.",
        min_length=1,
    )
    share: Annotated[float, Field(ge=0.0, le=1.0)] = setting(
        0.5, "Weight of the teacher's probabilities in the loss. The text has the remaining weight."
    )

    def check_with(self, whole: "PipelineConfig") -> None:
        if self.run is not None and not whole.model.has_network:
            raise ValueError("training.teacher.run needs a network that learns from it; got model.kind=kneser-ney")

    def facts(self) -> dict[str, str]:
        return {} if self.run is None else {"taught": f"by run {self.run}, {self.share:.0%} of the loss"}
