"""Figures of four commands as they were recorded, and run folders as they were written."""
