"""The recording application of the end-to-end tests."""

from __future__ import annotations

from tests.e2e.recording_app import app

__all__ = ["app"]
