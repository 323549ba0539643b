"""Times of schedules: cron expressions and time zones."""
