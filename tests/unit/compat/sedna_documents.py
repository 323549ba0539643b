"""Given: documents of Sedna, for a line that sorts parts."""

from typing import Any

CANARY = "canary-0123456789abcdef"
"""The value of every secret in the documents."""
FILE = "sedna.yaml"
DATASET = """
apiVersion: sedna.io/v1alpha1
kind: Dataset
metadata:
  name: parts
  uid: 6f1c
spec:
  url: /feed/parts.txt
  format: txt
  nodeName: edge-7
"""
MODELS = """
apiVersion: sedna.io/v1alpha1
kind: Model
metadata: {name: first}
spec: {url: /models/first.pth, format: pth, device_soc_versions: [cpu]}
---
apiVersion: sedna.io/v1alpha1
kind: Model
metadata: {name: live}
spec: {url: "s3://models/live.pth", format: pth, credentialName: store-login}
"""
SECRET = f"""
apiVersion: v1
kind: Secret
metadata:
  name: store-login
  annotations: {{s3-endpoint: s3.example.org}}
stringData: {{ACCESS_KEY_ID: {CANARY}, SECRET_ACCESS_KEY: {CANARY}}}
"""
TRAIN_TRIGGER = """
      checkPeriodSeconds: 30
      timer: {start: 02:00, end: 20:00}
      condition: {operator: ge, threshold: 500, metric: num_of_samples}
"""
DEPLOY_TRIGGER = """
      condition: {operator: gt, threshold: 0.1, metric: "accuracy_delta[0]"}
"""


def job(**changes: str) -> str:
    """Returns the document of a job; `changes` replace its triggers, or add to the job or to a stage."""
    return f"""
apiVersion: sedna.io/v1alpha1
kind: IncrementalLearningJob
metadata:
  name: {changes.get("name", "sorter")}
  namespace: {changes.get("namespace", "default")}
{changes.get("metadata", "")}
spec:
  initialModel: {{name: first}}
  dataset: {{name: parts, trainProb: {changes.get("train_prob", "0.8")}}}
  trainSpec:
    template:
      spec:
        nodeName: edge-7
        containers:
          - image: registry.example.org/sorter:v1
            name: train
            args: [{changes.get("args", "train.py")}]
            env:
              - {{name: epochs, value: "3"}}
              - {{name: lr, value: "1e-4"}}
              {changes.get("variable", "")}
            resources: {{limits: {{memory: 2Gi, nvidia.com/gpu: 1, cpu: "2"}}}}
    trigger: {changes.get("train_trigger", TRAIN_TRIGGER)}
  evalSpec:
    template:
      spec:
        containers: [{{image: sorter, name: eval, command: [python3], args: [src/eval.py, --quick]}}]
{changes.get("eval", "")}
  deploySpec:
    model: {{name: live, hotUpdateEnabled: {changes.get("hot", "true")}, pollPeriodSeconds: 30}}
    trigger: {changes.get("deploy_trigger", DEPLOY_TRIGGER)}
    hardExampleMining:
      name: {changes.get("miner", "IBT")}
      parameters: [{{key: threshold_img, value: "0.9"}}, {{key: names, value: a b}}]
    template:
      spec:
        containers: [{{image: sorter, name: serve, args: [serve.py]}}]
  credentialName: store-login
  outputDir: {changes.get("output", "/output")}
"""


def joined(*documents: str) -> bytes:
    return "---\n".join(documents).encode()


def whole(**changes: str) -> dict[str, bytes]:
    """Returns a file with everything that a job needs, by its name."""
    return {FILE: joined(DATASET, MODELS, job(**changes))}


def content_of(files: list[Any], name: str) -> Any:
    return next(file.content for file in files if file.name == name)
