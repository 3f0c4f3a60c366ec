"""Internal: `millgate wrap`, the proxy for one agent, started and ended with it.

run.py starts the agent under the supervisor (supervisor.py), a small server in our process that the agent talks to.
The supervisor sends each call (turn.py) through a gateway process (gateways.py, gateway.py), and straight to the
upstream if the gateway fails. agents/ knows how each agent is told the address; summary.py says what was done.
"""
