"""The dashboards of Grafana as code: `python -m boards` writes `deploy/grafana/dashboards`."""
