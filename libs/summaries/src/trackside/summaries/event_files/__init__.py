"""Event files of TensorBoard and of MindSpore: records, their values, reading and writing."""
