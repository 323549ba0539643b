"""The names of all TRACKSIDE_ variables, and a warning of those without effect, most often misspelt ones."""

import os
import re
import sys
from collections.abc import Mapping
from functools import cache

PREFIX = "TRACKSIDE_"
_SETTINGS = {
    "": "KAFKA_BOOTSTRAP KAFKA_SECURITY_PROTOCOL KAFKA_SSL_CA_FILE KAFKA_SSL_CERTIFICATE_FILE "
    "KAFKA_SSL_KEY_FILE KAFKA_SASL_MECHANISM KAFKA_USER KAFKA_PASSWORD_FILE KAFKA_TOKEN_COMMAND "
    "POSTGRES_DSN POSTGRES_PASSWORD_FILE TOPIC_PREFIX HEALTH_PORT HEALTH_HOST INSTANCE SIGNING_KEY_FILE "
    "METRICS_LINGER_S DISK_LOW_PERCENT DISK_LOW_FREE DISK_FOLDERS PAST_FOLDER STATE_FOLDER "
    "DECISION_LIMIT_S STORE STORE_CREDENTIAL "
    "STORE_COPIES STORE_TIMEOUT_S CREDENTIALS SPARES READER_PASSWORD_FILE PROMETHEUS_HOME GRAFANA_HOME "
    "PROMETHEUS_RETENTION_DAYS PROMETHEUS_RETENTION_SIZE",
    "DISPATCHER_": "TUNER_TIME_LIMIT_S STANDBY SIGNATURES KEYS_FILE RECEIPT_TOPICS PAST_LIMIT "
    "MAX_COMMANDS_PER_S MAX_OPEN_STREAMS LIMITS_FILE ENCRYPT_STREAMS",
    "SCHEDULER_": "LEASE_S HEARTBEAT_S RESEND_S STANDBY LOOK_AHEAD AGEING_S HOLD_AFTER_S QUEUE_LIMITS "
    "DEVICE_ORDER DEFAULT_MEMORY DEFAULT_CUDA_MEMORY HOST_FREE_SHARE HOST_FREE_MEMORY DEVICE_FREE_SHARE "
    "DEVICE_FREE_MEMORY MAX_CPU_PERCENT MAX_LOADING_TASKS",
    "CONSOLE_": "HOST PORT URL TOKENS_FILE SESSION_KEY_FILE SESSION_HOURS OIDC_ISSUER OIDC_CLIENT_ID "
    "OIDC_CLIENT_SECRET_FILE OIDC_ROLES_CLAIM OIDC_DEFAULT_ROLE CONNECTIONS VIEWERS SERVICES TRACE_URL "
    "PROMETHEUS_URL",
    "SUMMARY_": "DIRECTORIES LOOK_S SIGNING_KEY",
    "SUMMARY_INDEXER_": "BATCH_POINTS BUFFER_POINTS SESSION_TIMEOUT_S STUCK_S CACHE_JOBS CACHE_BYTES "
    "CACHE_LOADS READS READ_LIMIT_S",
    "WORKER_": "ID CPU_SLOTS CATALOGUE DATA_DIR HOST_DIR QUEUES PRELOAD HEARTBEAT_INTERVAL_S STOP_GRACE_S "
    "LOAD_EARLY MAX_TASKS MAX_PROCESSES HOST_RESERVE WATCH_INTERVAL_S ADOPT KEEP_TASKS_S KEEP_WORKDIRS "
    "SPOOL_BYTES UPLOAD_TIMEOUT_S RECOVERY_TIMEOUT_S CACHE_DIR CACHE_BYTES CACHE_ENTRIES SECRETS_DIR "
    "SECRET_COMMAND SECRET_TIMEOUT_S",
}
"""The settings of all services, by what their names begin with: one process knows the classes of few."""
_OTHERS = (
    "CACHE TORCH_INDEX BOOTSTRAP_PYTHON DATA_DIR TASK_ID ATTEMPT DEVICE WORKDIR PARAMETERS PARAMETERS_FILE "
    "METRICS_FD ANSWERS_FD INPUTS OUTPUTS STEP_LIMIT INSTRUCTION_FILE "
    "CHECKPOINT CHECKPOINT_STEP CHECKPOINT_ASKED"
)
"""What is no setting of a service: for the setup, by the supervisor, and for the processes of tasks."""
SETTINGS = frozenset(PREFIX + kind + name for kind, names in _SETTINGS.items() for name in names.split())
KNOWN = SETTINGS | {PREFIX + name for name in _OTHERS.split()}
_FOREIGN = re.compile(r"TRACKSIDE_(TEST|CHAOS|WRITE|FLOOD)_\w+|\w+_(SERVICE_(HOST|PORT\w*)|PORT_\d+_\w+)")
"""Variables of our own tests, and those that Kubernetes makes for a service named trackside-something."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each TRACKSIDE_ variable that nothing reads, with the nearest that is read."""
    unknown = (
        name
        for name, value in environment.items()
        if name.startswith(PREFIX)
        and name not in KNOWN
        and not _FOREIGN.fullmatch(name)
        and not value.startswith("tcp://")
    )
    found = sorted(unknown)
    if not found:
        return []
    from trackside.contracts.envelope.refusals import nearest  # with the models of messages, which take long

    return [
        f"{name} has no effect: this release has no such variable{nearest(name, KNOWN)}" for name in found
    ]


@cache
def warn_of_unknown_variables() -> None:
    """Names unknown variables on standard error, once; they may be of another release, so nothing ends."""
    for sentence in unknown_variables(os.environ):
        sys.stderr.write(f"trackside: {sentence}\n")
