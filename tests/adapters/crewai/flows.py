"""A flow that waits for a person."""

from crewai.flow.async_feedback.types import HumanFeedbackPending
from crewai.flow.flow import Flow, listen, start
from crewai.flow.human_feedback import human_feedback


class Waiting:
    """A provider that lets a flow wait."""

    def request_feedback(self, context, flow):
        raise HumanFeedbackPending(context=context)


class Booking(Flow[dict]):
    @start()
    def choose(self):
        self.state["train"] = "night train"

    @listen(choose)
    @human_feedback(message="Book it?", provider=Waiting())
    def ask(self):
        return f"{self.state['train']} for 90"

    @listen(ask)
    def book(self, result):
        self.state["said"] = result.feedback
        return f"{result.output}: {result.feedback}"
