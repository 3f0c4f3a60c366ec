"""Spending: what calls cost, what a session, a key and a tenant have spent, and the limits that hold."""
