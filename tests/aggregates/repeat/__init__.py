"""An example of an aggregate: one task, run several times. All that is known of it is in this folder."""
