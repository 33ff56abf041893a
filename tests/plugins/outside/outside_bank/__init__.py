"""Somebody else's package: an attack, an encoder, a bound method, a system and an engine for canarybank."""
