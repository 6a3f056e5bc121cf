"""The `slicelease` command: the only code that knows both the control plane and the worker."""
