"""Several hosts on one machine: each a network namespace with a Ray node in it, on links that are slow, lossy or cut.

A host here is a computer; the actor that hosts brokers is in `actors/host`.

Rules
-----
* Nothing of this machine's own network is used or changed. Everything is made inside namespaces of network,
  processes and mounts that belong to one process. The kernel removes everything when that process ends, however it
  ends. There is nothing to clean up, and a killed run leaves nothing behind.
* `layout` plans addresses and commands and is pure; `fence` starts a command inside; `init` is the first process
  inside; `links` changes links and reads their byte counts.
"""
