"""Stages that run once, the records that they pass on, and their files on this machine and in the shared storage."""
