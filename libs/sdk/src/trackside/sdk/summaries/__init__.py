"""What SummaryWriter is made of: conversions of what users give, and where it goes."""
