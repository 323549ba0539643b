"""Fields of NNI's configurations, and what they are here: for the refusals of those who come from there."""

NNI_NAMES = {
    "experimentName": "name",
    "searchSpace": "space",
    "searchSpaceFile": "space, written into the spec",
    "search_space": "space",
    "trialCommand": "task_type, the name of an entry of the worker's catalogue",
    "trialCodeDirectory": "task_type, the name of an entry of the worker's catalogue",
    "trialConcurrency": "concurrency",
    "trialGpuNumber": "resources.devices, with resources.kind gpu",
    "maxExperimentDuration": "max_duration_s",
    "maxExecDuration": "max_duration_s",
    "maxTrialNumber": "max_trials",
    "maxTrialNum": "max_trials",
    "maxTrialDuration": "max_trial_duration_s",
    "maxTrialNumberPerGpu": "resources.estimate_cuda_memory",
    "gpuIndices": "resources.device",
    "reuseMode": "runner: warm in the worker's catalogue",
    "trainingService": "a worker on each machine; a search does not name them",
    "advisor": "tuner, and assessor",
    "className": "name, of an installed package with an entry point",
    "codeDirectory": "name, of an installed package with an entry point",
    "codeDir": "name, of an installed package with an entry point",
    "builtinTunerName": "name",
    "builtinAssessorName": "name",
    "classArgs": "options",
    "optimize_mode": "direction, of the search",
    "optimizeMode": "direction, of the search",
}
"""What each field is here; `docs/nni.md` has a table with more."""


def nni_hint(name: str) -> str:
    """Returns a hint "; here it is x" for the name of a field of NNI, or nothing."""
    ours = NNI_NAMES.get(name)
    return f"; here it is {ours}" if ours else ""
