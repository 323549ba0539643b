"""Calls of torch's and tensorboardX's SummaryWriter that are not there, and what is used instead."""

_ARTIFACT = "save the file as an artifact: trial.save(name, path)"
_CHART = "charts are chosen where they are read: trackside summaries scalars JOB --tag A --tag B"
_FIGURE = "add_figure(tag, figure), or add_tensor(tag, tensor)"
INSTEAD = {
    "add_image_with_boxes": "draw the boxes, then add_image(tag, image)",
    "add_video": f"add_images(tag, frames), or {_ARTIFACT}",
    "add_audio": _ARTIFACT,
    "add_embedding": "add_tensor(tag, tensor); there is no projector",
    "add_pr_curve": _FIGURE,
    "add_pr_curve_raw": _FIGURE,
    "add_mesh": _ARTIFACT,
    "add_custom_scalars": _CHART,
    "add_custom_scalars_marginchart": _CHART,
    "add_custom_scalars_multilinechart": _CHART,
    "add_onnx_graph": _ARTIFACT,
    "add_openvino_graph": _ARTIFACT,
    "export_scalars_to_json": "trackside summaries scalars JOB --json, or trackside summaries export JOB",
    "use_metadata": "give global_step and walltime to each call",
}
"""By name of the call."""


def absent_call(name: str) -> str:
    """Returns the message of the AttributeError for a name that the writer does not have."""
    if name in INSTEAD:
        return f"SummaryWriter of trackside has no {name}; instead: {INSTEAD[name]}"
    return f"SummaryWriter of trackside has no {name}"
