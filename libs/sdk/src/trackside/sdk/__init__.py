"""What users import: Client, Task, trial."""

from trackside.sdk.client import Client as Client
