"""`python -m trackside.worker`: reads settings and runs a worker."""

from trackside.eventlog.settings import StackSettings, read_settings
from trackside.worker import app
from trackside.worker.settings import WorkerSettings

if __name__ == "__main__":
    app.main(read_settings(StackSettings), read_settings(WorkerSettings))
