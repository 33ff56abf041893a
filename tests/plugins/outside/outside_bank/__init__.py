"""Somebody else's package: an attack, its selection rule, an encoder, a method, a system and an engine."""
