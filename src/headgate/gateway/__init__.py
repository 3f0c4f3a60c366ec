"""The gateway: `Headgate`, what users open."""

from headgate.gateway.headgate import Headgate

__all__ = ["Headgate"]
