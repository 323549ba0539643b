SELECT partition, position, fold FROM snapshot_positions
