"""Tests of the rig: `python3 -m unittest discover -s rig`. Those that need root say so when they are skipped."""
