"""Recording of any PyTorch model's attention into a run file: `foxscope.record`."""

from .recording import Recording, record

__all__ = ["Recording", "record"]
