"""The inference service: requests, answers, hard examples."""
