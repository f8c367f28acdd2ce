"""The model hub: what it lists, downloads that survive anything, the cache they share with other clients.

`settings` says where, `client` asks over HTTP, `listing` and `remote` read without downloading, `plan` and `download`
fetch, `queue` lines downloads up, `cache` owns the folders, `local` finds models there, `leftovers` frees space.
Coroutines never wait for the disk in the event loop; functions that look at the disk say so.
"""
