"""A model: its numbered versions, each an artifact with what is known of it, their tags and stages."""
