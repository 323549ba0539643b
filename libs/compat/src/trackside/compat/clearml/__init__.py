"""The pipeline controller of ClearML, its methods, arguments and units; see docs/clearml.md."""

from trackside.compat.clearml.arguments import NotSupportedError as NotSupportedError
from trackside.compat.clearml.controller import PipelineController as PipelineController
