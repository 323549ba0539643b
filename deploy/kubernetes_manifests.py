"""Writes the manifests for Kubernetes that repeat other files: Prometheus' rules, the list of dashboards.

python deploy/kubernetes_manifests.py            writes the files
python deploy/kubernetes_manifests.py --check    says which of them differ, and exits with 1 if one does
"""

import sys
from pathlib import Path

DEPLOY = Path(__file__).parent
RULES = DEPLOY / "prometheus" / "rules"
DASHBOARDS = DEPLOY / "grafana" / "dashboards"
NOTE = "# Written by deploy/kubernetes_manifests.py from {sources}; edit those instead.\n"


def prometheus_rules() -> str:
    """Returns a PrometheusRule for each file of rules: the operator takes no plain files."""
    manifests = [_prometheus_rule(path) for path in sorted(RULES.glob("*.yml"))]
    return NOTE.format(sources="deploy/prometheus/rules") + "---\n".join(manifests)


def _prometheus_rule(path: Path) -> str:
    lines = path.read_text("utf-8").splitlines()
    return (
        "apiVersion: monitoring.coreos.com/v1\n"
        "kind: PrometheusRule\n"
        "metadata:\n"
        f"  name: trackside-{path.stem}\n"
        "  labels: {app.kubernetes.io/name: trackside, app.kubernetes.io/part-of: trackside}\n"
        "spec:\n"
    ) + "".join(f"  {line}".rstrip() + "\n" for line in lines)


def dashboards() -> str:
    """Returns the kustomization that makes a ConfigMap of each dashboard, for the sidecar of Grafana.

    It is in their folder, as kustomize reads no file outside of a kustomization's folder.
    """
    names = [path.stem for path in sorted(DASHBOARDS.glob("*.json"))]
    return (
        NOTE.format(sources="the names of these files")
        + "apiVersion: kustomize.config.k8s.io/v1beta1\n"
        + "kind: Kustomization\n"
        + "configMapGenerator:\n"
        + "".join(f"  - {{name: trackside-dashboard-{name}, files: [{name}.json]}}\n" for name in names)
        + "generatorOptions:\n"
        + "  disableNameSuffixHash: true\n"
        + "  labels:\n"
        + "    app.kubernetes.io/name: trackside\n"
        + "    app.kubernetes.io/part-of: trackside\n"
        + '    grafana_dashboard: "1"\n'
    )


def files() -> dict[Path, str]:
    """Returns the text of every generated file, by its path."""
    return {
        DEPLOY / "kubernetes" / "components" / "prometheus" / "rules.yaml": prometheus_rules(),
        DASHBOARDS / "kustomization.yaml": dashboards(),
    }


def differing() -> list[str]:
    """Returns the names of the files that are not what they are generated from."""
    return [
        path.relative_to(DEPLOY.parent).as_posix()
        for path, text in files().items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    """Writes the files, or with --check names those that differ."""
    if arguments == ["--check"]:
        found = differing()
        sys.stdout.write(
            "".join(f"{name} differs: run python deploy/kubernetes_manifests.py\n" for name in found)
        )
        return 1 if found else 0
    for path, text in files().items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
