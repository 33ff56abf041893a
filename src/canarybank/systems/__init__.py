"""Things that release: the System protocol, our own mechanism, and somebody else's behind a function."""

from canarybank.systems.mechanism import BankSystem, CallableSystem, System, SystemFactory, checked_releases

__all__ = ["BankSystem", "CallableSystem", "System", "SystemFactory", "checked_releases"]
