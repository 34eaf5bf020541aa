"""Stages that run once, the records that they return, and their files on this machine and in the shared storage."""
