"""Ray Tune and Optuna, which run the trials that Trackside runs, alternating with it."""
