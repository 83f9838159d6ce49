"""Several hosts on one machine: each a network namespace with a Ray node in it, on links that are slow, bad or cut.

A host here is a computer; the actor that hosts brokers is in `actors/host`.

Rules
-----
* Nothing of this machine's own network is used or changed. All is made inside namespaces of network, processes and
  mounts that belong to one process, so the kernel takes everything away when that ends, however it ends: there is
  nothing to clean up, and nothing is left over by a run that was killed.
* `layout` plans addresses and commands and is pure; `fence` starts a command in there; `init` is the first process
  inside; `links` changes links and reads what crossed them.
"""
