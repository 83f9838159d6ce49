"""Consumer groups on Ray: the actor that shares a durable subscription among workers, and the workers.

Rule: `actor` hosts the group machine (`clients.group`); a worker calls it, from any process. Who starts one stands in
`actors/network/groups.py`.
"""
