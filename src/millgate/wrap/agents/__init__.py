"""Internal: how each agent is told to send its model calls to `millgate wrap`, and where they would have gone.

launch.py starts the right one; plan.py has what they share. `extensions/` holds
what runs inside an agent. Each agent's file says how that agent finds its model service. If that is not clear, the
agent is not started: a key must not reach a host that the agent would not have called. No secret is put on a command
line, which every user of the machine can read.
"""
